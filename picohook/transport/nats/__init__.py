"""NATS: a host's connection, calls, events, bundles and permissions. It needs the extra `picohook[nats]`."""
