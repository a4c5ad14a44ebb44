"""The hook files of other agents: JSON with a list for each event, of handlers or of groups of them.

`vendors` is the table of the agents, and says whose file a file is. `form` says what differs between their files; each agent's
`Form` is in a file of its name. `reader` reads a file by its form, with the `checks` of each handler, into `hooks`.
"""
