"""A whole tool call, a whole model call, a turn of them, and the session of a user."""
