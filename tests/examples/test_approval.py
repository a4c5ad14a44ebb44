"""The hook that asks a person at a terminal, who is a test here."""

from __future__ import annotations

import os
import pty

import anyio
import pytest

from picohook import HookSpec, ToolCall
from picohook.hooks.function import FunctionHook
from picohook.testing import RecordingHost

from .conftest import EXAMPLES
from .test_useful import module

pytestmark = pytest.mark.anyio

HARM = "\x1b[2J<script>alert(1)</script> caf\u00e9 \u202e"
CALL = ToolCall(tool="bash", arguments={"command": f"rm {HARM}"})


@pytest.fixture
def terminal():
    """Both ends of a terminal: what a person sees and types at, and the name that the hook knows it by."""
    ours, theirs = pty.openpty()
    yield ours, os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


async def seen(terminal, mark):
    text = b""
    while mark not in text:
        await anyio.wait_readable(terminal)
        text += os.read(terminal, 4096)
    return text.decode()


def asking(path):
    return RecordingHost(
        [FunctionHook("person", {"approve_tool": module("terminal_approval").Terminal(path).approve_tool})]
    )


@pytest.mark.parametrize(
    ("typed", "approved", "reason"),
    [
        (b"y\n", True, ""),
        (b"YES\n", True, ""),
        (b"n\n", False, "the user said no"),
        (b"\n", False, "the user said no"),
        (b"yesterday\n", False, "the user said: yesterday"),
        (b"\x04", False, "the user said no"),
    ],
)
async def test_a_person_at_the_terminal_is_asked(terminal, typed, approved, reason):
    ours, path = terminal

    async def person():
        text = await seen(ours, b"why not: ")
        assert "bash is about to be called with" in text
        assert "caf\u00e9" in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        os.write(ours, typed)

    async with asking(path) as host, anyio.create_task_group() as group:
        group.start_soon(person)
        outcome = await host.approve_tool(CALL)
    assert (outcome.approved, outcome.reason) == (approved, reason)


async def test_text_typed_before_the_question_is_not_an_answer(terminal):
    ours, path = terminal
    os.write(ours, b"y\n")

    async def person():
        await seen(ours, b"why not: ")
        os.write(ours, b"n\n")

    async with asking(path) as host, anyio.create_task_group() as group:
        group.start_soon(person)
        outcome = await host.approve_tool(CALL)
    assert outcome.approved is False


async def test_one_call_is_asked_about_at_a_time(terminal):
    ours, path = terminal
    approved = {}

    async def ask(host, tool):
        approved[tool] = (await host.approve_tool(ToolCall(tool=tool))).approved

    async with asking(path) as host, anyio.create_task_group() as group:
        for tool in ("first", "second"):
            group.start_soon(ask, host, tool)
        for _ in range(2):
            text = await seen(ours, b"why not: ")
            assert text.count("is about to be called") == 1
            os.write(ours, b"y\n" if "first is" in text else b"n\n")
    assert approved == {"first": True, "second": False}


async def test_without_a_terminal_the_call_is_denied(tmp_path):
    async with asking(str(tmp_path / "tty")) as host:
        outcome = await host.approve_tool(CALL)
    assert (outcome.approved, outcome.reason) == (False, "there is no terminal to ask at")


async def test_the_terminal_hook_is_found_by_its_name():
    spec = HookSpec(name="person", python="terminal_approval:Terminal", stages=("approve_tool",), dir=str(EXAMPLES))
    async with RecordingHost([spec]) as host:
        assert [hook.state for hook in host.status().hooks] == ["ready"]
