"""A command in one of j-cli's own files."""

from __future__ import annotations

from ...hooks.command import CommandHook
from . import contract


class JcliHook(CommandHook):
    """Runs the command by j-cli's contract."""

    contract = contract
