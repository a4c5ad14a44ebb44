"""A small fleet on one machine: three NATS servers with the production files, three workers, and two hosts that ask them.

    python tests/fleet

Shows a denial, an attacker with each key, a worker that hangs, a server that is killed, and a new policy while calls run.
Prints each step with its seconds, and ends with 1 if anything is not as promised. The servers' files are those of the page for
those who operate a fleet. Needs nats-server, on the path or named in PICOHOOK_NATS_SERVER.
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
sys.path.append(str(HERE.parent / "ext" / "nats"))

from production import SERVERS, Fleet, programs

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS, HOSTS = 3, ("agents-17", "agents-18")
PATIENCE = 60.0
"""Seconds for one step. It takes one or two, and longer on a busy machine."""
SETTLED = 2.0
"""Seconds without a failure after which the hosts are back."""
HUNG = 4.0
"""Seconds in which a worker that hangs may get questions."""
HARMFUL = "rm -rf /"
PICOHOOK = (sys.executable, "-m", "picohook")

ATTACKS = {"anonymous", "encryption", "permissions", "answers", "hanging", "cluster"}
"""What `picohook doctor` tries at the servers."""


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
        self.fleet = Fleet(directory, programs()[0])
        self.workers: list[Program] = []
        self.hosts: list[Program] = []

    # What is started, and how it ends.

    def start(self) -> None:
        connection, _, host = (self.directory / "agents-17.toml").read_text().partition("[hooks.policy]")
        for name in HOSTS:
            file = self.directory / f"{name}.toml"
            file.write_text(f"{connection}[hooks.policy]{host}".replace("agents-17", name))
            self.hosts.append(self._program(name, sys.executable, str(HERE / "agent.py"), str(file)))
        self.forbid("rm")
        for number in range(WORKERS):
            self.workers.append(self._program(f"worker-{number}", *PICOHOOK, "worker", "--config", "worker-1.toml"))

    def forbid(self, *words: str) -> None:
        """Let the policy of all workers be a process that forbids these words."""
        file = self.directory / "worker-1.toml"
        connection = file.read_text().partition("[hooks.policy]")[0]
        command = [sys.executable, str(HERE / "policy.py"), *words]
        canary = 'canary = { tool = "bash", arguments = { command = "rm -rf /" } }'
        file.write_text(
            f'{connection}[hooks.policy]\ncommand = {json.dumps(command)}\nstages = ["before_tool"]\n{canary}\n'
        )

    def attack(self) -> None:
        """Try with each key what it must not do. Raises `FailedError` if anything of it is possible."""
        tried = (
            ("agents-17",),
            ("worker-1", "--asked-by", "agents-17.toml", "--route", f"localhost:{self.fleet.routes[0]}"),
        )
        running = {}
        for name, *options in tried:
            command = [*PICOHOOK, "doctor", f"{name}.toml", *options, "--json"]
            running[name] = subprocess.Popen(command, cwd=self.directory, stdout=subprocess.PIPE, text=True)
        for name, process in running.items():
            findings = json.loads(process.communicate()[0])["findings"]
            found = [one for one in findings if one["check"] in ATTACKS and "localhost:" in one["about"]]
            bad = [one["message"] for one in found if one["level"] == "error"]
            if bad or len(found) < len(ATTACKS) - 2:
                raise FailedError(f"the key of {name}: {bad or found}")
            self.until(f"{len(found)} attacks with the key of {name} failed", lambda: True)

    def _program(self, name: str, *command: str) -> Program:
        return Program(*command, directory=self.directory, log=self.directory / f"{name}.log")

    @property
    def programs(self) -> list[Program]:
        return [*self.hosts, *self.workers]

    def close(self) -> None:
        for one in self.programs:
            if one.process.poll() is None:
                one.kill()
        self.fleet.stop()

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

    def settles(self) -> Callable[[], bool]:
        """Whether each host has run harmless calls for a while, and none has failed since. What hosts say comes late."""
        seen, since, goes_on = self.failures(), time.monotonic(), self.goes_on()

        def holds() -> bool:
            nonlocal seen, since, goes_on
            if self.failures() != seen:
                seen, since, goes_on = self.failures(), time.monotonic(), self.goes_on()
            return time.monotonic() > since + SETTLED and goes_on()

        return holds

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
        self.until(f"{len(HOSTS)} hosts run harmless calls", self.goes_on())
        self.until("each host was denied a harmful call", lambda: self.all_hosts(HARMFUL, "denied"))
        self.attack()

        before = self.failures()
        self.workers[0].process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        self.until("a worker hangs: its servers end its connection", lambda: time.monotonic() > began + HUNG)
        hung = self.failures()
        self.until("the other two answer", self.goes_on())
        print(f"         {hung - before} calls failed in the first {HUNG:g} s, and {self.failures() - hung} later")
        self.workers.pop(0).kill()

        before = self.failures()
        self.fleet.processes[SERVERS[0]].kill()
        self.until("a server was killed: the hosts go to the others", self.settles())
        print(f"         {self.failures() - before} calls were denied meanwhile")
        self.fleet.processes[SERVERS[0]].wait()
        self.fleet.start(SERVERS[0])

        failed = self.failures()
        self.forbid("rm", "curl")
        for worker in self.workers:
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
    if not programs():
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
