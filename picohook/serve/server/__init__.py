"""Serving JSON-RPC 2.0 to many clients: sockets, connections, backpressure and dispatch, whatever the methods are."""
