"""Past tool calls, from the transcripts that agents keep of their sessions on this machine."""

from ...extension import Command, Extension, Lazy

extension = Extension(
    name="history",
    uses=("guards", "vendors"),
    public=("command", "redact", "transcripts"),
    commands={
        "history": Command(
            Lazy("picohook.ext.history.command:app"), "Count the past tool calls of agents, and find unguarded ones."
        ),
    },
)
