"""Hooks of every kind, with one small base class."""
