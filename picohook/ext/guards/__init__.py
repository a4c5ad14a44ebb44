"""Guards: rules about tool calls, which read a call as the shell, the file system or the network would."""

from ...extension import Command, Extension, Lazy, Option

extension = Extension(
    name="guards",
    uses=("vendors",),
    public=("judge", "names"),
    tables={"guards": Lazy("picohook.ext.guards.table:GuardsTable")},
    commands={
        "guard": Command(
            Lazy("picohook.ext.guards.command:app"),
            "List the rules of guards, test them, or measure them.",
        ),
        "explain": Command(
            Lazy("picohook.ext.guards.command:explain_app"), "Show what guards read in a call, and decide."
        ),
    },
    options={
        "doctor --mutate": Option(
            Lazy("picohook.ext.guards.doctor:mutations"),
            "Put commands that a gate stops into other clothes, and name those that pass.",
        ),
        "shim --guards": Option(
            Lazy("picohook.ext.guards.setup:switch_on"),
            "Also set up guards in your own configuration, if it has none.",
        ),
    },
)
