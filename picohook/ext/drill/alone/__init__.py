"""Programs that run on their own, without the rest of picohook."""
