"""The contracts of other systems with their hooks, as data and pure functions. A dialect is a folder."""
