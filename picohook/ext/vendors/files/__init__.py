"""The hook files of other agents: JSON with a list for each event, of handlers or of groups of them.

`form` defines what differs between their files, and each
agent's `Form` is in `file.py` of its folder. `reader` reads a file by its form into `hooks`, with the `checks` of each handler.
"""
