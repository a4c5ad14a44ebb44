"""Proves that the agent of another vendor asks its hooks, by driving the installed program against a scripted model."""

from ...extension import Command, Extension, Lazy

extension = Extension(
    name="drill",
    uses=("vendors",),
    commands={
        "drill": Command(Lazy("picohook.ext.drill.command:app"), "Prove that an installed agent asks your hooks."),
    },
    doctor=Lazy("picohook.ext.drill.command:offer"),
)
