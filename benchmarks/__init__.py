"""What the host costs, side by side with what it could cost at least: `make bench`, or `python -m benchmarks --help`."""
