"""The socket through which a running host is inspected and controlled."""

from ...extension import Command, Extension, Keyword, Lazy

extension = Extension(
    name="control",
    uses=("prometheus",),
    public=("control",),
    keywords={"control": Keyword(Lazy("picohook.ext.control.control:ControlPart"))},
    commands={
        "control": Command(Lazy("picohook.ext.control.command:app"), "Inspect a running host, and control it."),
        "top": Command(Lazy("picohook.ext.control.top:app"), "Show the hooks of a running host, live."),
    },
)
