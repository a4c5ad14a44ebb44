"""The modules that the client can import. They run without site-packages, and import nothing from picohook."""
