"""Journals: files of lines, and their writers."""
