"""Hooks of Blade Agent SDK."""
