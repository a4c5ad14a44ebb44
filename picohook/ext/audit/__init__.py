"""The audit log: questions to hooks and their answers, in a file in which every later change can be detected."""

from __future__ import annotations

from ...extension import Command, Extension, Lazy

extension = Extension(
    name="audit",
    commands={
        "audit": Command(Lazy("picohook.ext.audit.command:app"), "Check an audit log."),
    },
)
