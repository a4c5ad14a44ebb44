"""The log and the metrics of a host."""
