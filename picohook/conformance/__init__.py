"""The conformance kit: what the protocol asks of a hook, and of a host, as requirements that can be run.

    manifest    the requirements, read from vectors/*.json
    process     a hook's process under raw control, byte for byte
    script      plays a requirement's steps against one
    shapes      what an answer has to be like: one function for each `like` of a step
    watches     what holds for every line that a hook writes: one function for each requirement with a `watch`
    hook        runs a hook against all of them
    probe       the other side: a hook that holds its host to the protocol
    report      what came of it: as data, as JSON, as JUnit
    verdict     how a check says what it found
    plugin      for pytest; its tests are in `items`
    document    the reference page, made from the manifest

Nothing is imported here: pytest loads `plugin` in every run, and the probe has to start fast.
"""
