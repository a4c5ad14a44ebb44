"""Hooks, of every kind, behind one small base class."""
