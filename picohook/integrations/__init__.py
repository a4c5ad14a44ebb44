"""Hooks for agents that somebody else's framework runs: a module for each framework, and an extra of the same name."""
