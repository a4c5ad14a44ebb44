"""NATS: a host's connection, and its calls. It needs the extra `nats`."""
