"""One side of a comparison, as a process: `python -m benchmarks.side NAME COMMAND...`.

For each line "WAY COUNT AT_ONCE" of its input it asks so many questions, so many of them at once, and writes the seconds of
one. In the way "sessions" each of those at once is a session of its own. "open COUNT 1" opens so many sessions, and writes
the bytes of one. The side `rarely-LOOP` collects garbage as seldom as `picohook serve` does. `benchmarks/picoclaw/main.go` is
such a side, too.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from picohook import Host, Meta, ToolCall
from picohook.cli.host import OBJECTS_BEFORE_COLLECTION

from .clients import MinimalAsyncio, MinimalTrio, Pipe, line
from .given import CALL, FAR, HOOKS, LOOPS, hook, on
from .measure import blocking, each, p50

Ask = Callable[[], Awaitable[Any]]

MCP_SERVER = """
import sys
try:
    from mcp.server.mcpserver import MCPServer
except ImportError:  # before its version 2
    from mcp.server.fastmcp import FastMCP as MCPServer
server = MCPServer("echo")
@server.tool()
def before_tool(tool: str, arguments: dict) -> dict:
    return {"action": "continue"}
server.run()
"""


def memory() -> int:
    """The bytes of memory that this process has."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


async def _in_sessions(host: Host, count: int, at_once: int) -> float:
    """The seconds of one question, of this many sessions that ask at the same time."""
    begun = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for number in range(at_once):
            tasks.start_soon(_one_session, host, number, count // at_once)
    return (time.perf_counter() - begun) / (count // at_once * at_once)


async def _one_session(host: Host, number: int, count: int) -> None:
    async with host.session(f"s{number}") as session:
        meta = Meta(agent_id="main", turn_id=f"turn-s{number}", session_key=f"s{number}", iteration=1)
        call, asked = CALL.model_copy(update={"meta": meta}), session.host
        for _ in range(count):
            await asked.before_tool(call)


async def _open(host: Host, count: int) -> float:
    before = memory()
    async with AsyncExitStack() as opened:
        for number in range(count):
            await opened.enter_async_context(host.session(f"s{number}"))
        return (memory() - before) / count


async def _serve(ask: Ask, host: Host | None = None, in_company: Ask | None = None) -> None:
    """Does what the lines of the input say. Nothing else happens meanwhile, so reading may block the event loop."""
    for words in map(str.split, sys.stdin):
        way, count, at_once = words[0], int(words[1]), int(words[2])
        if way == "sessions":
            assert host is not None
            taken = await _in_sessions(host, count, at_once)
        elif way == "open":
            assert host is not None
            taken = await _open(host, count)
        elif at_once == 1:
            taken = await p50(count, ask)()
        else:
            taken = await each(count, at_once, in_company or ask)()
        print(taken, flush=True)


async def _picohook(command: list[str], *, rarely: bool = False) -> None:
    if rarely:
        gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    async with Host([hook("h", *command)], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
        assert outcome.trail[0].error is None, outcome.trail
        if rarely:
            gc.freeze()
        await _serve(partial(host.before_tool, CALL), host)


def _changed(result: dict[str, Any]) -> ToolCall:
    """The call with the change of the hook: the least that a client must do with it. It is not validated."""
    return CALL.model_copy(update=result["call"])


async def _minimal(loop: str, command: list[str]) -> None:
    client = (MinimalTrio if loop == "trio" else MinimalAsyncio)(command)
    asked = ("hook.before_tool", CALL, _changed if "edit" in command else None)
    in_company = partial(client.ask_in_company, *asked) if isinstance(client, MinimalAsyncio) else None
    await _serve(partial(client.ask, *asked), in_company=in_company)
    await client.aclose()


async def _mcp(_command: list[str]) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=sys.executable, args=["-c", MCP_SERVER])
    arguments: dict[str, Any] = {"tool": CALL.tool, "arguments": CALL.arguments}
    async with AsyncExitStack() as opened:
        session = ClientSession(*await opened.enter_async_context(stdio_client(server)))
        await opened.enter_async_context(session)
        await session.initialize()
        await _serve(partial(session.call_tool, "before_tool", arguments))


async def _blocking(ask: Callable[[], object]) -> None:
    for words in map(str.split, sys.stdin):
        print(await blocking(ask, int(words[1]))(), flush=True)


async def _floor(command: list[str]) -> None:
    pipe = Pipe(command)
    await _blocking(partial(pipe.ask, line(2, "hook.before_tool", CALL.wire())))
    pipe.close()


async def _process(_command: list[str]) -> None:
    script, given = f"{sys.executable} -S {HOOKS / 'oneshot.py'}", json.dumps(CALL.wire()).encode()
    await _blocking(partial(subprocess.run, ["sh", "-c", script], input=given, capture_output=True, check=True))


def main() -> None:
    """Be the side that the arguments name."""
    name, *command = sys.argv[1:]
    kind, _, loop = name.rpartition("-")
    if loop in LOOPS:
        ours = partial(_picohook, command, rarely=kind == "rarely")
        work = partial(_minimal, loop, command) if kind == "least" else ours
    else:
        loop, work = "asyncio", partial({"mcp": _mcp, "process": _process, "floor": _floor}[name], command)
    on(loop, work)


if __name__ == "__main__":
    main()
