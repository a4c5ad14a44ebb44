"""The hook files of other agents: JSON with a list for each event, of handlers or of groups of them.

`vendors` is the table of the agents, and recognises their files. `form` defines what differs between their files, and each
agent's `Form` is in a file of its name. `reader` reads a file by its form into `hooks`, with the `checks` of each handler.
"""
