"""Serves a running host to other programs: the control socket, the sidecar and the metrics endpoint."""

from ...extension import Command, Extension, Lazy

extension = Extension(
    name="sidecar",
    uses=("control",),
    commands={
        "serve": Command(Lazy("picohook.ext.sidecar.command:app"), "Serve the hooks to a program in any language."),
    },
    schemas={"protocol": Lazy("picohook.ext.sidecar.methods.openrpc:openrpc")},
)
