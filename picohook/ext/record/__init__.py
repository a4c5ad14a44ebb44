"""Records of what a host asks its hooks, and their replay."""
