"""The hooks that ask a person, who is a test here: at a terminal, and over HTTP."""

from __future__ import annotations

import os
import pty
import re
import urllib.error
import urllib.parse
import urllib.request

import anyio
import anyio.to_thread
import pytest

from picohook import HookSpec, ToolCall
from picohook.hooks.function import FunctionHook
from picohook.testing import RecordingHost

from .conftest import EXAMPLES
from .test_useful import module

pytestmark = pytest.mark.anyio

HARM = "\x1b[2J<script>alert(1)</script> caf\u00e9 \u202e"
CALL = ToolCall(tool="bash", arguments={"command": f"rm {HARM}"})


# terminal_approval.py


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


# web_approval.py


class Page:
    """The page, as a browser has it."""

    def __init__(self, url):
        self.url = url

    async def get(self, path="", data=None, **headers):
        """Status, headers and text; what a form is sent to is followed to the page that comes then."""
        body = None if data is None else urllib.parse.urlencode(data).encode()
        request = urllib.request.Request(urllib.parse.urljoin(self.url, path), body, headers)
        return await anyio.to_thread.run_sync(self._open, request)

    @staticmethod
    def _open(request):
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, reply.headers, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()

    async def asked(self, calls=1):
        """The page and its calls' keys, once there are so many."""
        while True:
            _, _, text = await self.get()
            keys = re.findall('name="call" value="([0-9a-f]+)"', text)
            if len(keys) == calls:
                return text, keys
            await self.get("changes?since=" + re.search(r"since=(\d+)", text)[1])


@pytest.fixture
def web(web_approval):
    """A host with the hook, and the page."""
    host, url = web_approval
    return host, Page(url)


@pytest.mark.parametrize(
    ("form", "approved", "reason"),
    [
        ({"approved": "yes"}, True, ""),
        ({"approved": "no"}, False, "the user said no"),
        ({"approved": "no", "reason": "caf\u00e9 first"}, False, "the user said: caf\u00e9 first"),
        ({"reason": "x"}, False, "the user said: x"),
        ({"approved": "true"}, False, "the user said no"),
    ],
)
async def test_a_person_at_the_page_is_asked(web, form, approved, reason):
    host, page = web

    async def person():
        text, [key] = await page.asked()
        assert "<h2>bash</h2>" in text
        status, _, after = await page.get("decide", {"call": key, **form})
        assert status == 200
        assert "No call waits for you" in after

    async with anyio.create_task_group() as group:
        group.start_soon(person)
        outcome = await host.approve_tool(CALL)
    assert (outcome.approved, outcome.reason) == (approved, reason)


async def test_the_page_shows_a_call_as_text_and_runs_none_of_it(web):
    host, page = web
    found = []

    async def person():
        _, headers, _ = await page.get()
        text, [key] = await page.asked()
        found.extend([headers, text])
        await page.get("decide", {"call": key, "approved": "no"})

    async with anyio.create_task_group() as group:
        group.start_soon(person)
        await host.approve_tool(CALL)
    headers, text = found
    assert "&lt;script&gt;alert(1)&lt;/script&gt; caf\u00e9" in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "unsafe" not in headers["Content-Security-Policy"]


async def test_calls_are_decided_in_any_order_and_each_once(web):
    host, page = web
    approved = {}

    async def ask(tool):
        approved[tool] = (await host.approve_tool(ToolCall(tool=tool))).approved

    async with anyio.create_task_group() as group:
        for tool in ("first", "second"):
            group.start_soon(ask, tool)
        text, keys = await page.asked(calls=2)
        tools = re.findall("<h2>(.*)</h2>", text)
        for tool, key in reversed(list(zip(tools, keys, strict=True))):
            await page.get("decide", {"call": key, "approved": "yes" if tool == "first" else "no"})
            status, _, _ = await page.get("decide", {"call": key, "approved": "yes"})
            assert status == 410
    assert approved == {"first": True, "second": False}


async def test_a_call_that_is_no_longer_waited_for_disappears_from_the_page(web):
    host, page = web
    async with anyio.create_task_group() as group:
        group.start_soon(host.approve_tool, CALL)
        _, [key] = await page.asked()
        group.cancel_scope.cancel()
    await page.asked(calls=0)
    status, _, _ = await page.get("decide", {"call": key, "approved": "yes"})
    assert status == 410


async def test_the_page_can_be_opened_only_by_its_address(web):
    _, page = web
    base = page.url.rsplit("/", 2)[0]
    for path in (base, f"{base}/", f"{base}/x/", f"{base}/x/decide", page.url.rstrip("/")):
        assert (await page.get(path))[0] == 404
        assert (await page.get(path, {"call": "x"}))[0] == 404
    assert (await page.get(Host="evil.example"))[0] == 404
    assert (await page.get("decide", {"call": "x"}, Host="evil.example"))[0] == 404
    assert (await page.get())[0] == 200
