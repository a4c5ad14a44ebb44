"""Shared by the host, the SDK and the conformance kit: the protocol's words, texts and merge patch. Standard library only."""
