"""The settings of the commands in j-cli's own files."""

from __future__ import annotations

from typing import Any

from ...extension import Lazy
from ...model.spec import HookSpec

HOOK: Lazy[Any] = Lazy("picohook.ext.jcli.hook:JcliHook")


class JcliSpec(HookSpec):
    """The settings of a command in one of j-cli's own files."""

    def make(self) -> Any:
        return HOOK.load()(self)
