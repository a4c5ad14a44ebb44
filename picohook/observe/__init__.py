"""What can be seen of a host at work."""
