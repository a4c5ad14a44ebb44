"""Calls over NATS while server and workers are killed, stopped and slow, and one member of the group lies.

    python tests/ext/nats/faults.py --calls 100000

Counts the answers and the failures by cause. It fails if a call ends without an answer and without a cause, if it gets an
answer to another call, or if a call is approved that no worker approved. It is not a part of the suite: it takes minutes.
"""

from __future__ import annotations

import argparse
import collections
import functools
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

sys.path.append(str(Path(__file__).parent))

from server import Server

from picohook import HookSpec, Host, NatsError, NatsSettings, ToolCall
from picohook.ext.nats import subjects
from picohook.ext.nats.connection import NatsConnection
from picohook.observe.log import Log
from picohook.transport.event_loop import current_reactor

WORKERS = 3
AT_ONCE = 64
TIMEOUT = 0.5
POLICY = """
import asyncio, random

async def check(call):
    number, want = call.arguments["n"], call.arguments["want"]
    if random.random() < 0.002:
        await asyncio.sleep(1)
    if call.arguments["stage"] == "approve_tool":
        return {"approved": want == "yes", "reason": str(number)}
    if want == "yes":
        return {"call": {"arguments": {**call.arguments, "seen": number}}}
    return {"action": "deny_tool", "reason": str(number)}
"""


CALL = ToolCall(tool="t", arguments={"n": 0, "want": "yes", "stage": "before_tool"})


class Worker:
    """A worker, which can be killed and started again."""

    def __init__(self, file: Path) -> None:
        self.command = [sys.executable, "-m", "picohook", "worker", "--config", str(file), "--max-in-flight", "32"]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


class Liar:
    """A member of the group that answers twice, late, or to another question, and never approves a call in the right form."""

    def __init__(self, connection: NatsConnection, tasks: anyio.abc.TaskGroup) -> None:
        self.connection = connection
        self.tasks = tasks

    async def join(self) -> None:
        await self.connection.listen(subjects.rpc("default", "policy", "*", "*"), self.asked, queue="policy")

    def asked(self, message: object) -> None:
        self.tasks.start_soon(self.answer, message)

    async def answer(self, message: object) -> None:
        question = json.loads(message.data)
        given = question["params"]["arguments"]
        number, digest = given["n"], hashlib.sha256(message.data).hexdigest()
        yes = {"approved": True, "action": "continue"}
        no = {"approved": False} if given["stage"] == "approve_tool" else {"action": "deny_tool"}
        no["reason"] = str(number)
        right, wrong = (question["id"], digest), (question["id"], "0" * 64)
        other = (question["id"] + 1, digest)
        match random.randrange(4):
            case 0:  # twice: only the first may count
                answers = [(0, right, no), (0, right, yes)]
            case 1:  # late: no approval may count, and at before_tool the answer counts if the host itself is late
                answers = [(2 * TIMEOUT, right, yes if given["stage"] == "approve_tool" else no)]
            case 2:
                answers = [(0, wrong, yes)]
            case _:
                answers = [(0, other, yes)]
        for wait, (of, about), result in answers:
            await anyio.sleep(wait)
            body = json.dumps({"jsonrpc": "2.0", "id": of, "result": result}).encode()
            try:
                await self.connection.publish(f"{message.reply}.{about}.liar", body)
            except NatsError:
                return


class Run:
    def __init__(self, calls: int) -> None:
        self.left = calls
        self.number = 0
        self.seen: collections.Counter[str] = collections.Counter()
        self.faults: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.longest = 0.0

    async def ask(self, host: Host) -> None:
        while self.left > 0:
            self.left -= 1
            self.number += 1
            number = self.number
            stage, want = random.choice(["before_tool", "approve_tool"]), random.choice(["yes", "no"])
            call = ToolCall(tool="t", arguments={"n": number, "want": want, "stage": stage})
            begun = time.monotonic()
            outcome = await getattr(host, stage)(call)
            took = time.monotonic() - begun
            self.longest = max(self.longest, took)
            if took > 2 * TIMEOUT:
                say(f"call {number} took {took:.2f} s: {outcome.trail[0].failure}")
            self.judge(number, stage, want, outcome)
            if outcome.trail[0].failure in {"breaker", "unreachable", "absent"}:
                await anyio.sleep(0.1)  # else nearly all calls would be these, which take no time

    def judge(self, number: int, stage: str, want: str, outcome: object) -> None:
        (entry,) = outcome.trail
        said_yes = outcome.approved if stage == "approve_tool" else outcome.action in {"continue", "modify"}
        if said_yes and want != "yes":
            self.wrong.append(f"{number}: falsely approved: {outcome.wire()}")
        if entry.failure is not None:
            self.seen[entry.failure] += 1
            if said_yes:
                self.wrong.append(f"{number}: a failure counted as a yes: {outcome.wire()}")
        elif outcome.action == "modify":
            self.seen["edited"] += 1
            if outcome.payload.arguments["seen"] != number:
                self.wrong.append(f"{number}: got the answer to another call: {outcome.wire()}")
        elif not said_yes:
            self.seen["denied"] += 1
            if outcome.reason != str(number):
                self.wrong.append(f"{number}: got the answer to another call: {outcome.wire()}")
        elif stage == "approve_tool":
            self.seen["approved"] += 1
        else:
            self.wrong.append(f"{number}: lost without a cause: {outcome.wire()}")

    async def hurt(self, server: Server, workers: list[Worker]) -> None:
        while True:
            await anyio.sleep(random.uniform(0.5, 2))
            fault = random.choice(
                ["worker", "half", "server", "pause server", "pause worker", "worker", "pause worker"]
            )
            self.faults[fault] += 1
            if fault == "server":
                await anyio.to_thread.run_sync(server.kill)
                await anyio.sleep(random.uniform(0, 0.5))
                await anyio.to_thread.run_sync(server.start)
            elif fault == "pause server":
                server.pause()
                await anyio.sleep(random.uniform(0.1, 1))
                server.go_on()
            elif fault == "pause worker":
                chosen = random.choice(workers).process
                chosen.send_signal(signal.SIGSTOP)
                await anyio.sleep(random.uniform(0.1, 1))
                chosen.send_signal(signal.SIGCONT)
            else:
                for worker in random.sample(workers, 1 if fault == "worker" else (WORKERS + 1) // 2):
                    await anyio.to_thread.run_sync(worker.kill)
                    worker.start()

    async def main(self, file: Path, server: Server) -> None:
        settings = NatsSettings(servers=(server.url,))
        workers = [Worker(file) for _ in range(WORKERS)]
        stages = ("before_tool", "approve_tool")
        spec = HookSpec(
            name="p", nats="policy", connection=settings, stages=stages, timeout=TIMEOUT, approval_timeout=TIMEOUT
        )
        liar = NatsConnection(settings, current_reactor(), Log(None))
        try:
            async with anyio.create_task_group() as around:
                await Liar(liar, around).join()
                async with Host([spec]) as host:
                    while (await host.before_tool(CALL)).trail[0].failure is not None:
                        await anyio.sleep(0.1)
                    around.start_soon(self.hurt, server, workers)
                    around.start_soon(self.tell)
                    async with anyio.create_task_group() as tasks:
                        for _ in range(AT_ONCE):
                            tasks.start_soon(self.ask, host)
                around.cancel_scope.cancel()
        finally:
            server.go_on()
            for worker in workers:
                worker.kill()
            with anyio.CancelScope(shield=True):
                await liar.aclose()

    async def tell(self) -> None:
        while True:
            await anyio.sleep(10)
            say(f"{self.number} calls: {dict(self.seen)}; faults: {dict(self.faults)}; wrong: {len(self.wrong)}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--backend", choices=["asyncio", "uvloop", "trio"], default="asyncio")
    asked = parser.parse_args()
    run = Run(asked.calls)
    with tempfile.TemporaryDirectory() as directory:
        server = Server()
        Path(directory, "policy.py").write_text(POLICY)
        file = Path(directory, "picohook.toml")
        file.write_text(
            f'[nats]\nservers = ["{server.url}"]\n'
            '[hooks.policy]\npython = "policy:check"\nstages = ["before_tool", "approve_tool"]\n'
        )
        try:
            backend = "trio" if asked.backend == "trio" else "asyncio"
            options = {"use_uvloop": True} if asked.backend == "uvloop" else {}
            anyio.run(functools.partial(run.main, file, server), backend=backend, backend_options=options)
        finally:
            server.kill()
    say(f"{run.number} calls: {dict(run.seen)}; faults: {dict(run.faults)}; longest call {run.longest:.2f} s")
    say("\n".join(run.wrong[:20]) or "none lost without a cause, none misattributed, none falsely approved")
    sys.exit(bool(run.wrong))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    import logging

    logging.disable(logging.CRITICAL)
    main()
