"""The contracts of other systems with their hooks, as data and pure functions. A dialect is a folder."""

from __future__ import annotations

from ...extension import Command, Extension, Lazy

extension = Extension(
    name="vendors",
    commands={
        "shim": Command(Lazy("picohook.ext.vendors.command:app"), "Use your hooks in the agent of another vendor."),
    },
)
