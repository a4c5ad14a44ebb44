"""Hooks that ask a model, and the model's endpoint."""
