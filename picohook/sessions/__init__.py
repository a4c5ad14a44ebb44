"""Tool calls, model calls, the turns that they make up, and a user's session."""
