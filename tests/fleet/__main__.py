"""A small fleet on one machine: a NATS server, three workers with one policy, and five hosts that ask them all the time.

    python tests/fleet

Shows a denial, a worker that is killed, the server restarted, and a new policy while calls run. Prints each step with its
seconds, and ends with 1 if anything is not as promised. Needs nats-server, on the path or named in PICOHOOK_NATS_SERVER.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "nats"))

from server import Server, program

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS, HOSTS = 3, 5
PATIENCE = 60.0
"""Seconds for one step. It takes one or two, and longer on a busy machine."""
DOWN = 1.0
"""Seconds for which the server is away."""
HARMFUL = "rm -rf /"
PICOHOOK = (sys.executable, "-m", "picohook")

CONNECTION = """[nats]
servers = ["{url}"]
host = "{name}"

[hooks.policy]
stages = ["before_tool"]
"""


class Program:
    """A process, and the last JSON object that it printed."""

    def __init__(self, *command: str, directory: Path, log: Path) -> None:
        self.last: dict[str, Any] = {}
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.last = json.loads(line)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class FailedError(Exception):
    """Something is not as promised."""


class Demo:
    """The fleet, and the steps of the demonstration."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.began = time.monotonic()
        self.server = Server()
        self.workers: list[Program] = []
        self.hosts: list[Program] = []

    # What is started, and how it ends.

    def start(self) -> None:
        for number in range(1, WORKERS + 1):
            config = self.directory / f"worker-{number}.toml"
            self.forbid(config, "rm")
            self.workers.append(self._program(config.stem, *PICOHOOK, "worker", "--config", str(config)))
        for number in range(1, HOSTS + 1):
            config = self.directory / f"agent-{number}.toml"
            config.write_text(
                CONNECTION.format(url=self.server.url, name=config.stem) + 'nats = "policy"\ntimeout = 2\n'
            )
            self.hosts.append(self._program(config.stem, sys.executable, str(HERE / "agent.py"), str(config)))

    def forbid(self, config: Path, *words: str) -> None:
        """Let a worker's policy be a process that forbids these words."""
        command = [sys.executable, str(HERE / "policy.py"), *words]
        connection = CONNECTION.format(url=self.server.url, name=config.stem)
        config.write_text(f"{connection}command = {json.dumps(command)}\n")

    def _program(self, name: str, *command: str) -> Program:
        return Program(*command, directory=self.directory, log=self.directory / f"{name}.log")

    @property
    def programs(self) -> list[Program]:
        return [*self.hosts, *self.workers]

    def close(self) -> None:
        for one in self.programs:
            if one.process.poll() is None:
                one.kill()
        self.server.kill()

    # What is looked at.

    def count(self, kind: str, command: str) -> int:
        return sum(host.last.get(kind, {}).get(command, 0) for host in self.hosts)

    def failures(self, cause: str | None = None) -> int:
        counts = [host.last.get("failed", {}) for host in self.hosts]
        return sum(sum(one.values()) if cause is None else one.get(cause, 0) for one in counts)

    def all_hosts(self, command: str, verdict: str) -> bool:
        return all(host.last.get("last", {}).get(command) == verdict for host in self.hosts)

    def goes_on(self) -> Callable[[], bool]:
        """Whether each host has run two more harmless calls since now."""
        before = [host.last.get("ran", {}).get("ls", 0) for host in self.hosts]
        return lambda: all(
            host.last.get("ran", {}).get("ls", 0) > count + 1 for host, count in zip(self.hosts, before, strict=True)
        )

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until this holds, and print it. A harmful call that runs, and a program that ends, fail at once."""
        began = time.monotonic()
        while not holds():
            self.check()
            if time.monotonic() > began + PATIENCE:
                raise FailedError(f"it did not come to this in {PATIENCE:g} s: {what}")
            time.sleep(0.02)
        self.check()
        print(f"{time.monotonic() - self.began:5.1f} s  {what}", flush=True)

    def check(self) -> None:
        if ran := self.count("ran", HARMFUL):
            raise FailedError(f"{ran} harmful calls ran")
        for one in self.programs:
            if one.process.poll() is not None:
                raise FailedError(f"a program ended: {one.log.name} says {one.log.read_text()[-1000:]!r}")

    # The steps.

    def run(self) -> None:
        self.start()
        self.until(f"{HOSTS} hosts run harmless calls", self.goes_on())
        self.until("each host was denied a harmful call", lambda: self.all_hosts(HARMFUL, "denied"))

        before = self.failures()
        self.workers.pop().kill()
        self.until("a worker was killed: the other two answer", self.goes_on())
        print(f"         {self.failures() - before} calls failed with it, and were denied")

        before = self.failures("unreachable")
        self.server.kill()
        self.until("the server was killed: every host denies at once", lambda: self.all_hosts("ls", "denied"))
        time.sleep(DOWN)
        self.server.start()
        self.until("the server is back: calls run again", self.goes_on())
        print(f"         {self.failures('unreachable') - before} calls were denied meanwhile, as unreachable")

        failed = self.failures()
        for worker in self.workers:
            self.forbid(worker.log.with_suffix(".toml"), "rm", "curl")
            worker.process.send_signal(signal.SIGHUP)
        self.until("a new policy forbids curl, in each host", lambda: self.all_hosts("curl example.com", "denied"))
        if self.failures() > failed:
            raise FailedError(f"{self.failures() - failed} calls failed while the policy was replaced")
        print("         no call failed meanwhile")

        for one in (*self.hosts, *self.workers):
            one.process.terminate()
        codes = [one.process.wait(PATIENCE) for one in (*self.hosts, *self.workers)]
        if any(codes):
            raise FailedError(f"hosts and workers ended with {codes}")
        calls = sum(sum(host.last[kind].values()) for host in self.hosts for kind in ("ran", "denied"))
        print(f"{time.monotonic() - self.began:5.1f} s  all ended in order, after {calls} calls; no harmful one ran")


def main() -> int:
    if program() is None:
        print("needs nats-server: apt-get install nats-server, or name one in PICOHOOK_NATS_SERVER", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        demo = Demo(Path(directory))
        stack.callback(demo.close)
        try:
            demo.run()
        except FailedError as failure:
            print(f"FAILED: {failure}", file=sys.stderr)
            for one in demo.programs:
                print(f"{one.log.name}: {one.log.read_text()[-1000:]}", file=sys.stderr)
            return 1
    return 0


sys.exit(main())
