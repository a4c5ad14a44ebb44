"""The conformance kit: the requirements of the protocol for hooks and for hosts, and checks that run them.

    manifest       the requirements, read from vectors/*.json
    hook           runs a hook's command against all requirements
    process        a process of the hook, read and written byte by byte
    script         runs the steps of one requirement
    answer_checks  one method for each `like` of a step
    line_checks    one check for each requirement with a `watch`
    outcome        how a check ends: `Failed`, `Skipped`
    probe          a hook that checks its host
    report         the results: as data, JSON, JUnit
    plugin         the pytest plugin; its tests are in `items`

Nothing is imported here: the probe has to start fast.
"""
