"""Finds the configurations that apply to a directory, and checks whether they may run."""
