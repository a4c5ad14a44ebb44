"""The shim's clients, and what they can import. They run without site-packages, and import nothing from picohook."""
