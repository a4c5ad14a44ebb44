"""Asks the person at the terminal before a tool is called.

A hook process has no terminal, so this runs in the host's own process:

    [hooks.person]
    python = "terminal_approval:Terminal"
    stages = ["approve_tool"]
    approval_timeout = 300

It asks about one call at a time, and ignores input that was typed before the question. Without a terminal every call is
denied.
"""

from __future__ import annotations

import json
import os
import termios
from typing import TYPE_CHECKING, Any

import anyio

from picohook import Approve, Deny

if TYPE_CHECKING:
    from picohook import ToolCall


class Terminal:
    def __init__(self, path: str = "/dev/tty") -> None:
        self.path = path
        self.busy = anyio.Lock()

    async def approve_tool(self, call: ToolCall) -> Approve | Deny:
        async with self.busy:
            try:
                terminal = os.open(self.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            except OSError:
                return Deny(reason="there is no terminal to ask at")
            try:
                return await self.ask(terminal, call)
            finally:
                os.close(terminal)

    async def ask(self, terminal: int, call: ToolCall) -> Approve | Deny:
        termios.tcflush(terminal, termios.TCIFLUSH)
        await write(terminal, f"\n{shown(call.tool)} is about to be called with\n{shown(call.arguments)}\n")
        await write(terminal, "Type y for yes, n for no, or why not: ")
        await anyio.wait_readable(terminal)
        said = os.read(terminal, 4096).decode(errors="replace").strip()
        if said.lower() in {"y", "yes"}:
            return Approve()
        return Deny(reason="the user said no" if said.lower() in {"", "n", "no"} else f"the user said: {said}")


def shown(value: Any) -> str:
    """Return a value as text without characters that move the cursor or reverse the direction of text."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


async def write(terminal: int, text: str) -> None:
    data = text.encode(errors="backslashreplace")
    while data:
        try:
            data = data[os.write(terminal, data) :]
        except BlockingIOError:
            await anyio.wait_writable(terminal)
