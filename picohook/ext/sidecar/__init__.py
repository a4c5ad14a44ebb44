"""Serves a running host to other programs: the control socket, the sidecar and the metrics endpoint."""
