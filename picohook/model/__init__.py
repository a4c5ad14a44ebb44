"""Payloads, stages, decisions and settings, without I/O."""
