"""The version of picohook, defined here alone."""

from __future__ import annotations

VERSION = "0.1.0"
