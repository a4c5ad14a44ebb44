"""Runs a host in one way, tries everything of it that uses a socket, a thread or a watch, and prints what came of each.

python everything.py WAY DIRECTORY
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import shlex
import socket
import sys
import threading
import urllib.request
from pathlib import Path

import anyio
import anyio.to_thread

from picohook import AuditLog, FunctionHook, Host, Prompt, Recorder, ToolCall
from picohook.ext.control.client import ask, connected, request
from picohook.ext.prometheus.endpoint import metrics_endpoint
from picohook.ext.sidecar.sidecar import Sidecar
from picohook.journal.ledger import verify

PATIENCE = 30
PROCESS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("id"):
        result = {"ok": True} if asked["method"] == "hook.hello" else {"action": "continue"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


class Tried:
    """A host, and what came of each thing that it was asked to do."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "picohook.toml"
        self.control, self.socket = directory / "control", directory / "sidecar"
        self.audit = AuditLog(directory / "audit.jsonl")
        self.recorder = Recorder(directory / "record.jsonl")
        self.came_of: dict[str, str] = {}
        script = directory / "process.py"
        script.write_text(PROCESS)
        (directory / "inside.py").write_text("def deny(call):\n    return {'approved': False, 'reason': 'python'}\n")
        self.write("one")

    def write(self, name: str) -> None:
        """The configuration, with a hook of this name among the others."""
        python = json.dumps([sys.executable, str(self.directory / "process.py")])
        self.config.write_text(
            f"[hooks.{name}]\ncommand = {python}\nstages = ['before_tool']\n"
            f"[hooks.shell]\nrun = {json.dumps('echo ' + shlex.quote(json.dumps({'call': {'arguments': {'by': 'shell'}}})))}\n"
            "stages = ['before_tool']\n"
            "[hooks.judge]\nprompt = 'Is it safe?'\nstages = ['before_prompt']\n"
            "[hooks.inside]\npython = 'inside:deny'\nstages = ['approve_tool']\n"
        )

    def host(self) -> Host:
        """Made in any way of running."""

        def complete(prompt, model):  # in a thread
            del model
            return f'{{"nonce": "{prompt.nonce}", "user_input": "judged"}}'

        return Host.from_config(
            self.config, complete=complete, watch=True, control=self.control, listeners=[self.audit, self.recorder]
        )

    async def all_of(self, host: Host) -> None:
        """Everything, one after the other. Each is given up when it takes too long."""
        for one in (
            self._a_process_and_a_command,
            self._a_prompt,
            self._a_python_hook,
            self._a_function_in_a_thread,
            self._the_control_socket,
            self._a_watcher_of_the_control_socket,
            self._a_sidecar,
            self._the_metrics,
            self._a_watched_configuration,
            self._a_blocking_host,
        ):
            await self._try(one.__name__, one(host))

    async def _try(self, name, trying):
        try:
            with anyio.fail_after(PATIENCE):
                await trying
        except BaseException as error:  # it is what came of it
            self.came_of[name] = repr(error)
        else:
            self.came_of[name] = "ok"

    async def _a_process_and_a_command(self, host):
        outcome = await host.before_tool(ToolCall(tool="bash"))
        assert [entry.error for entry in outcome.trail] == [None, None]
        assert outcome.payload.arguments == {"by": "shell"}

    async def _a_prompt(self, host):
        assert (await host.before_prompt(Prompt(prompt="x"))).payload.prompt == "judged"

    async def _a_python_hook(self, host):
        assert (await host.approve_tool(ToolCall(tool="bash"))).reason == "python"

    async def _a_function_in_a_thread(self, host):
        threads = []
        await host.mount(FunctionHook("thread", {"after_llm": lambda _: threads.append(threading.get_ident())}))
        outcome = await host.ask("after_llm", {"model": "m", "response": {}})
        assert outcome.trail[0].error is None
        assert threads != [threading.get_ident()]
        await host.unmount("thread")

    async def _the_control_socket(self, host):
        del host
        status = await in_thread(ask, self.control, "status", timeout=PATIENCE)
        assert [hook["name"] for hook in status["hooks"]]

    async def _a_watcher_of_the_control_socket(self, host):
        def wait():
            with connected(self.control, PATIENCE) as connection:
                assert request(connection, "watch")
                ready.set()
                return json.loads(connection.readline())["method"]

        ready = threading.Event()
        async with anyio.create_task_group() as tasks:
            told = []

            async def watch():
                told.append(await in_thread(wait))

            tasks.start_soon(watch)
            await in_thread(ready.wait, PATIENCE)
            await host.before_prompt(Prompt(prompt="x"))
        assert told == ["outcome"]

    async def _a_sidecar(self, host):
        sidecar = Sidecar(host)
        server = await sidecar.at_socket(self.socket)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sidecar.serve, server)
            calls = {"tool": "bash", "arguments": {}}
            answer = await in_thread(ask, self.socket, "before_tool", calls, timeout=PATIENCE)
            assert answer["payload"]["arguments"] == {"by": "shell"}, answer
            sidecar.end()

    async def _the_metrics(self, host):
        async with metrics_endpoint(host, "127.0.0.1:0") as server:
            assert b"picohook" in await in_thread(fetched, f"http://127.0.0.1:{server.server_port}/metrics")

    async def _a_watched_configuration(self, host):
        reloaded = anyio.Event()

        def note(what):
            if getattr(what, "added", ()) == ("two",):
                reloaded.set()

        host.on_change.add(note)
        self.write("two")
        await reloaded.wait()

    async def _a_blocking_host(self, host):
        del host

        def block():
            with Host.blocking([FunctionHook("f", {"approve_tool": lambda _: False})]) as blocking:
                return blocking.approve_tool({"tool": "bash"}).approved

        assert await in_thread(block) is False

    def after_its_end(self) -> None:
        """What is there to see when the host has ended."""
        with open(self.audit.path, "rb") as log:
            verdict = verify(log)
        self.came_of["_an_audit_log"] = (
            "ok" if verdict.ok and verdict.records > 9 and not verdict.notes else str(verdict)
        )
        lines = Path(self.recorder.path).read_text().splitlines()
        self.came_of["_a_recorder"] = "ok" if len(lines) > 9 and not self.recorder.lost else repr(lines)
        self.came_of["_leaving"] = "ok" if not self.control.exists() else "the control socket is there still"


async def in_thread(function, *arguments, **named):
    return await anyio.to_thread.run_sync(functools.partial(function, *arguments, **named), abandon_on_cancel=True)


def fetched(address):
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
        return answer.read()


async def alone(tried: Tried) -> None:
    """A program of its own."""
    async with tried.host() as host:
        await tried.all_of(host)


def in_fastapi(tried: Tried) -> None:
    """A real server: the host lives in its lifespan, and is used by a request."""
    import fastapi  # the one way of running that needs them
    import uvicorn

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with tried.host() as app.state.host:
            yield

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.get("/")
    async def everything():
        await tried.all_of(app.state.host)

    def ask_for_it():
        try:
            fetched(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        finally:
            server.should_exit = True

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    client = threading.Thread(target=ask_for_it)
    client.start()
    server.run(sockets=[listener])
    client.join()


def on_uvloop(tried: Tried) -> None:
    import uvloop

    uvloop.run(alone(tried))


WAYS = {
    "asyncio.run": lambda tried: asyncio.run(alone(tried)),
    "anyio.run on asyncio": lambda tried: anyio.run(alone, tried),
    "anyio.run on trio": lambda tried: anyio.run(alone, tried, backend="trio"),
    "uvloop.run": on_uvloop,
    "FastAPI under uvicorn": in_fastapi,
}


if __name__ == "__main__":
    PATIENCE = int(sys.argv[3]) if len(sys.argv) > 3 else PATIENCE
    tried = Tried(Path(sys.argv[2]))
    WAYS[sys.argv[1]](tried)
    tried.after_its_end()
    print(json.dumps(tried.came_of))  # noqa: T201 - for the test that runs this
