"""PicoClaw's configuration."""
