"""What host, SDK and conformance kit share, of the standard library alone: the protocol's words, its texts, its merge."""
