"""The socket through which a running host is inspected and controlled."""
