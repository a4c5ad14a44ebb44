"""The wire protocol without I/O, async or clock. Nothing that a hook sends raises an exception here."""
