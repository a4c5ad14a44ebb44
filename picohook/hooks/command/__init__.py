"""Hooks that run anew for each question: shell commands, by picohook's contract."""
