"""Hooks that run anew for each question: shell commands and model prompts, each by picohook's contract or by j-cli's."""
