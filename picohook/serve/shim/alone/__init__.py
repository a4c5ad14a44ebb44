"""What runs without site-packages, and imports nothing of picohook. The client has only this directory to import from."""
