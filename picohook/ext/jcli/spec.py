"""The settings of the commands in j-cli's own files."""

from __future__ import annotations

from typing import Any

from ...model.spec import HookSpec
from . import contract


class JcliSpec(HookSpec):
    """The settings of a command in one of j-cli's own files."""

    def make(self) -> Any:
        from ...hooks.command import CommandHook  # reading a configuration does without

        hook = CommandHook(self)
        hook.contract = contract
        return hook
