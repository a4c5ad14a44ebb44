"""What holds a hook's process and all its descendants, and ends them with it."""
