"""The wire protocol without I/O: no async, no clock, and nothing here raises on what a peer sent."""
