"""The rooms of picohook in the order in which they may import each other, and those of the core."""

from __future__ import annotations

LAYERS = [
    ["wire", "errors"],
    ["extension", "extensions"],
    ["protocol", "observe"],
    ["model"],
    ["transport"],
    ["process"],
    ["hooks", "contain"],
    ["engine"],
    ["config"],
    ["calls"],
    ["sessions"],
    ["projects"],
    ["reload"],
    ["rpc", "journal"],
    ["blocking", "host"],
    ["testing", "integrations", "conformance", "cli", "__main__"],
    ["ext"],
]
"""A room may import what stands before it here, and itself. The picture in docs/explanation/architecture.md is this list."""

CORE = [
    "wire",
    "errors",
    "extension",
    "extensions",
    "protocol",
    "observe",
    "model",
    "transport",
    "process",
    "hooks",
    "engine",
]
CORE += ["config", "calls", "blocking", "host"]
OFFERED = ["contain", "sessions", "projects", "reload"]
"""Rooms beside the core that the methods of a host are in."""

TESTS = {
    "core": ["core", "calls", "config", "extensions", "hooks", "host", "observe", "process", "protocol"],
    "offered": OFFERED,
}
"""The folders with the tests of the core, and of the offered rooms."""
