"""Hooks that run anew for each question: shell commands and model prompts, by j-cli's contract."""
