"""NATS: a host's connection, and its calls. It needs the extra `nats`."""

from ...extension import Command, Extension, Lazy, Option

extension = Extension(
    name="nats",
    public=("answers",),
    kinds={"nats": Lazy("picohook.ext.nats.settings:NatsSpec")},
    tables={"nats": Lazy("picohook.ext.nats.settings:NatsSettings")},
    commands={
        "worker": Command(Lazy("picohook.ext.nats.command:app"), "Serve hooks over NATS, to hosts on other machines."),
    },
    options={
        "doctor --route": Option(
            Lazy("picohook.ext.nats.doctor:try_routes"),
            "Try whether any server can join a cluster of NATS there. Repeatable.",
            metavar="HOST:PORT",
            many=True,
        ),
        "doctor --asked-by": Option(
            Lazy("picohook.ext.nats.doctor:try_answers"),
            "A host's configuration: try whether a worker may answer it elsewhere.",
            metavar="FILE",
        ),
    },
    doctor=Lazy("picohook.ext.nats.doctor:examine"),
)
