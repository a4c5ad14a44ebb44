"""NATS: the connection that the parts of a host share, subjects, and who may use which. It needs the extra `picohook[nats]`."""
