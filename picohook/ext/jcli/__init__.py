"""j-cli's configuration."""
