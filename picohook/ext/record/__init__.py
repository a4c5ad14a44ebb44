"""Records of a host's questions to its hooks, and their replay."""

from ...extension import Command, Extension, HookKey, Keyword, Lazy

extension = Extension(
    name="record",
    uses=("history", "nats", "vendors"),
    keywords={
        "record": Keyword(
            Lazy("picohook.ext.record.recorder:RecordPart"),
            "FILE",
            "Write all questions and answers there, for `picohook replay` and `trace`.",
        ),
        "wire": Keyword(
            Lazy("picohook.ext.record.recorder:WirePart"),
            help="Show the raw lines on stderr: → to a hook's standard input, ← from its standard output."
            " With --record, they are recorded too.",
        ),
    },
    hook_keys={
        "mode": HookKey(
            Lazy("picohook.ext.record.shadow:Mode"),
            Lazy("picohook.ext.record.shadow:apply_mode"),
            "shadow: it is asked beside the others, in a process of its own, and decides nothing.",
        )
    },
    commands={
        "trace": Command(Lazy("picohook.ext.record.trace_command:app"), "Show a record as a timeline."),
        "replay": Command(
            Lazy("picohook.ext.record.replay_command:app"),
            "Ask hooks about past calls again, and compare the decisions.",
        ),
    },
)
