"""Serves JSON-RPC 2.0 to many clients: sockets, connections, backpressure and dispatch, for any methods."""
