"""Payloads, stages, decisions, settings: the data that hooks are asked about and decide with. No I/O."""
