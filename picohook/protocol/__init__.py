"""The wire protocol without I/O: no async, no clock, and no exception because of what a hook sent."""
