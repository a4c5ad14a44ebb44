"""What a running host offers to other programs."""
