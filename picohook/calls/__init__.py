"""Whole calls: a tool call or a model call with all its stages."""
