"""Asks hooks about past calls without their effects: without a network, and with a directory that is thrown away."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from ...model.spec import HookSpec, Sandbox
from .served import plain, served

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HARMLESS = frozenset({"picohook.ext.guards.table"})
"""The modules with the settings of hooks in the host's process that have no effects."""
_GIT = re.compile(r"(?:^|[;&|(`\n])\s*(?:\w+=\S*\s+|sudo\s+)*git\s")
_PATHS = re.compile(r"""[^\s"'=:;|&<>()`]+""")
_MOST = 64
"""The names in a call that are looked up."""


def confined(hooks: Iterable[HookSpec], scratch: str) -> tuple[list[HookSpec], list[str]]:
    """Returns the hooks in sandboxes that can write this directory alone, and notes about those that cannot be asked."""
    kept: list[HookSpec] = []
    notes: list[str] = []
    for spec in hooks:
        own = plain(spec)
        if getattr(spec, "mode", "") == "shadow":
            notes.append(f"{own.name} is not asked, because it is in shadow, and decides nothing")
        elif type(own).__module__ in _HARMLESS:
            kept.append(own)
        elif own.command or own.run or own.python:
            inside = served(own) if own.python else own
            read_only = own.sandbox.read_only if own.sandbox is not None else ("/",)
            sandbox = Sandbox(read_only=read_only, writable=(scratch,), network=False)
            kept.append(inside.model_copy(update={"sandbox": sandbox, "env": {**inside.env, "TMPDIR": scratch}}))
        else:
            notes.append(f"{own.name} is not asked, because it runs no program that a sandbox can hold: give --effects")
    return kept, notes


def changed_since(params: Mapping[str, Any], at: float) -> str:
    """Returns why the machine may be in another state than when this call was made; empty if there is no sign of it.

    A hook that looks at files or asks git may then decide otherwise for that reason alone.
    """
    arguments, context = params.get("arguments"), params.get("context")
    if not isinstance(arguments, dict) or not at:
        return ""
    cwd = context.get("cwd") if isinstance(context, dict) else ""
    if isinstance(cwd, str) and cwd and not os.path.isdir(cwd):
        return f"{cwd} is not there any more"
    texts = [value for value in arguments.values() if isinstance(value, str)]
    if any(_GIT.search(text[:10_000]) for text in texts):
        return "it uses git, whose state is another now"
    words = [
        word
        for text in texts
        for word in ([text] if "\n" not in text and text[:1] == "/" else []) + _PATHS.findall(text[:2000])
    ]
    for word in list(dict.fromkeys(words))[:_MOST]:
        if not isinstance(cwd, str) or not (os.path.isabs(word) or cwd) or "\0" in word:
            continue
        try:
            changed = os.lstat(os.path.join(cwd, word)).st_ctime > at
        except (OSError, ValueError):
            changed = os.path.isabs(word) and os.path.isdir(os.path.dirname(word)) and word.count("/") > 1
        if changed:
            return f"{word} was changed, made or removed since"
    return ""
