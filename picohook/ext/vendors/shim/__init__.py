"""`picohook shim`: picohook's hooks behind another vendor's agent. A small client asks a host that keeps running."""
