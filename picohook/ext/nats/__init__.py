"""NATS: a host's connection, and its calls. It needs the extra `nats`."""

from __future__ import annotations

from ...extension import Command, Extension, Lazy

extension = Extension(
    name="nats",
    commands={
        "worker": Command(Lazy("picohook.ext.nats.command:app"), "Serve hooks over NATS, to hosts on other machines."),
    },
)
