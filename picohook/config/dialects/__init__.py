"""How each system writes its configuration."""
