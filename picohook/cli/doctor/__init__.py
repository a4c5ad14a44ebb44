"""The examinations of `picohook doctor`. Each module returns findings.

findings    a finding: ok, note, warning or error, and the way out
machine     how this machine can contain, limit and sandbox hooks
files       configuration files: contents, permissions, trust, environment
programs    the programs that the hooks run
hooks       each hook, started and greeted
gates       hooks that decide about tool calls, and their canaries
examine     all of it, in that order, with what extensions examine
"""
