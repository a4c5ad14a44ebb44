"""Records of a host's questions to its hooks, and their replay."""

from __future__ import annotations

from ...extension import Command, Extension, Lazy

extension = Extension(
    name="record",
    commands={
        "trace": Command(Lazy("picohook.ext.record.trace_command:app"), "Show a record as a timeline."),
        "replay": Command(
            Lazy("picohook.ext.record.replay_command:app"), "Ask the questions of a record again, and compare."
        ),
    },
)
