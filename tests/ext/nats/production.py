"""The production configuration, from the page for those who operate a fleet: its very files, with free ports."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/how-to/operate-a-fleet.md"
SERVERS = ("nats-1", "nats-2", "nats-3")
PATIENCE = 30


def programs():
    """The servers that are installed here, each once."""
    places = [os.environ.get("PICOHOOK_NATS_SERVER", ""), *os.environ.get("PICOHOOK_NATS_SERVERS", "").split(":")]
    places += [
        shutil.which("nats-server", path=f"{os.environ['PATH']}:/usr/sbin") or "",
        str(Path.home() / "go/bin/nats-server"),
    ]
    return list(dict.fromkeys(place for place in places if place and os.access(place, os.X_OK)))


class Fleet:
    """Three servers with the page's files in a directory of their own."""

    def __init__(self, directory: Path, program: str) -> None:
        self.directory = directory
        self.program = program
        ports = free_ports(6)
        self.ports, self.routes = ports[:3], ports[3:]
        given = ["4231", "4232", "4233", "6231", "6232", "6233"]
        text = PAGE.read_text()
        for title, body in re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', text, re.MULTILINE | re.DOTALL):
            for old, new in zip(given, ports, strict=True):
                body = body.replace(old, str(new))  # noqa: PLW2901 - the page's ports may be in use here
            (directory / title).write_text(body)
        for name in ("agents-17", "agents-18", "worker-1"):
            line = self.run(sys.executable, "make_key.py", name)
            with (directory / "keys.conf").open("a") as keys:
                keys.write(line)
        self.run("sh", "make_servers.sh")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in SERVERS:
            self.start(name)
        self.wait(
            "all servers know each other",
            lambda: all(self.log(name).count("Route connection created") > 1 for name in SERVERS),
        )

    def run(self, *command: str) -> str:
        return subprocess.run(command, cwd=self.directory, check=True, capture_output=True, text=True).stdout

    def start(self, name: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [self.program, "-c", "server.conf"], cwd=self.directory / name, stdout=log, stderr=log
            )
        self.wait(f"{name} is ready", lambda: "Server is ready" in self.log(name))

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    def wait(self, what: str, holds) -> None:
        ends = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < ends, f"it did not come to this: {what}"
            time.sleep(0.02)

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(f"tls://localhost:{port}" for port in self.ports)

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Ports that are free now. They are all open at the same time, so that no two are the same."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
