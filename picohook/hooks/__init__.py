"""Hooks of every kind, with one small base class."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model.spec import HookSpec
    from .base import Hook


def make_hook(spec: HookSpec) -> Hook:
    """The hook with these settings. The module of its kind is imported when it is first needed."""
    module, _, name = spec.made_by.rpartition(".")
    hook: Hook = getattr(import_module(f"..{module}", __name__), name)(spec)
    return hook
