"""Which configurations apply to a directory, and whether they may run."""
