"""GitHub Copilot: its CLI, and its cloud agent."""
