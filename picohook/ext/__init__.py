"""The extensions. Each is a folder, found by a key and imported when it is used."""
