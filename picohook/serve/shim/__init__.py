"""`picohook shim`: picohook behind another vendor's agent. A small client asks a warm host."""
