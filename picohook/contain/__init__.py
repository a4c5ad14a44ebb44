"""Containment: tracks a hook's process and all its descendants, and ends them together."""
