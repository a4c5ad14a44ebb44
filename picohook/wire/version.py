"""The version of picohook, defined here alone."""

VERSION = "0.1.0"
