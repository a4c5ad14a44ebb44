"""Hooks, of every kind, behind one small base class."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model.spec import HookSpec
    from .base import Hook

_KINDS = {
    "command": "process.ProcessHook",
    "run": "one_shot.command.CommandHook",
    "python": "python.PythonHook",
    "prompt": "one_shot.prompt.PromptHook",
}


def make_hook(spec: HookSpec) -> Hook:
    """The hook that these settings describe. A program pays for the kinds that it uses."""
    kind = next((name for name in _KINDS if getattr(spec, name)), "command")
    module, _, name = _KINDS[kind].rpartition(".")
    hook: Hook = getattr(import_module(f".{module}", __name__), name)(spec)
    return hook
