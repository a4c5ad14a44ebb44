"""Hooks that run anew for each question: shell commands and model prompts, by picohook's contract or by j-cli's."""
