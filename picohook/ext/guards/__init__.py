"""Guards: rules about tool calls, which read a call as the shell, the file system or the network would."""

from __future__ import annotations

from ...extension import Extension, Lazy, Option

extension = Extension(
    name="guards",
    options={
        "doctor --mutate": Option(
            Lazy("picohook.ext.guards.doctor:mutations"),
            "Put commands that a gate stops into other clothes, and name those that pass.",
        ),
    },
)
