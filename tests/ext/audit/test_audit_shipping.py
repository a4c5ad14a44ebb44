"""The audit log is sent to another machine with the files of the page, while everything that takes part is killed.

Each trial kills the shipper, the central rsyslog, and then both and the host, each time while the log is rotated.
`PICOHOOK_TRIALS=40` asks for so many trials.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from picohook.journal.ledger import verify

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not all(map(shutil.which, ("rsyslogd", "openssl"))) or not [*Path("/usr/lib").glob("**/rsyslog/omrelp.so")],
        reason="there is no rsyslog with RELP: apt-get install --no-install-recommends rsyslog rsyslog-relp openssl",
    ),
]

PAGE = (Path(__file__).parents[3] / "docs/how-to/audit.md").read_text()
FILES = dict(re.findall(r'```text title="(\S+)"\n(.*?)```', PAGE, re.DOTALL))
[IN_ORDER] = re.findall(r"^\$ (grep .* > whole\.jsonl)$", PAGE, re.MULTILINE)

HOST = """
import random, sys, anyio
from picohook import AuditLog, FunctionHook, Host, ToolCall

async def main():
    log = AuditLog(sys.argv[1], max_size=20_000, payloads=True)
    hook = FunctionHook("f", {"before_tool": lambda call: None})
    async with Host([hook], listeners=[log]) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, tasks.cancel_scope)
        await anyio.to_thread.run_sync(sys.stdin.read)
        tasks.cancel_scope.cancel()

async def ask(host, scope):
    while True:
        await host.before_tool(ToolCall(tool="bash", arguments={"command": "x" * random.choice([10, 100, 8000])}))
        await anyio.sleep(random.random() / 100)

anyio.run(main)
"""


class Machines:
    """A machine with a host and its shipper, and the central one, as processes with the files of the page."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log, self.central, self.run = path / "log", path / "central", path / "run"
        for directory in (self.log, self.central, path / "spool"):
            directory.mkdir()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        for name, logs in (("ship.conf", self.log), ("central.conf", self.central)):
            text = FILES[name].replace('target="logs.example.com"', 'target="127.0.0.1"').replace("6514", str(port))
            for place, here in {
                "/run/picohook-ship": self.run,
                "/var/spool/rsyslog": path / "spool",
                "/var/log/picohook": logs,
                "/etc/picohook": path,
            }.items():
                text = text.replace(place, str(here))
            (path / name).write_text(text)
        subprocess.run(["sh", "-c", FILES["make_certificates.sh"]], cwd=path, check=True, capture_output=True)
        self.running: dict[str, anyio.abc.Process] = {}

    async def start(self, *names: str) -> None:
        for name in names:
            if name == "ship":  # as systemd does with a RuntimeDirectory
                shutil.rmtree(self.run, ignore_errors=True)
                self.run.mkdir()
            directory = self.run if name == "ship" else self.path
            command = ["rsyslogd", "-n", "-f", str(self.path / f"{name}.conf"), "-i", str(directory / f"{name}.pid")]
            if name == "host":
                command = [sys.executable, "-c", HOST, str(self.log / "audit.jsonl")]
            else:
                (directory / f"{name}.pid").unlink(missing_ok=True)
            self.running[name] = await anyio.open_process(command, stdout=None, stderr=None)

    async def kill(self, *names: str) -> None:
        for name in names:
            if self.running[name].returncode is None:
                self.running[name].kill()
        for name in names:
            await self.running[name].wait()

    def sent(self) -> list[bytes]:
        return [line for file in self.central.iterdir() for line in file.read_bytes().splitlines() if line]

    def written(self) -> list[bytes]:
        return [line for file in self.log.iterdir() for line in file.read_bytes().splitlines()]

    async def rotated(self) -> None:
        files = len([*self.log.iterdir()])
        await until(lambda: len([*self.log.iterdir()]) > files)


async def until(condition) -> None:
    while not condition():
        await anyio.sleep(0.01)


@pytest.mark.parametrize("trial", range(int(os.environ.get("PICOHOOK_TRIALS", "1"))))
async def test_the_log_arrives_whole_when_shipper_receiver_and_host_are_killed_while_it_is_rotated(tmp_path, trial):
    machines = Machines(tmp_path)
    try:
        await machines.start("central", "ship", "host")
        await until(lambda: len(machines.sent()) > 20)
        for victims in (("ship",), ("central",), ("central", "ship", "host")):
            await machines.rotated()
            await anyio.sleep(random.random())  # at any moment of the shipper's second
            await machines.kill(*victims)
            await machines.start(*victims)
        await machines.rotated()
        await machines.running["host"].stdin.aclose()
        await machines.running["host"].wait()
        written = machines.written()
        with anyio.move_on_after(60):
            await until(lambda: set(written) <= set(machines.sent()))
    finally:
        with anyio.CancelScope(shield=True):
            await machines.kill(*machines.running)
    sent = machines.sent()
    assert not set(written) - set(sent), f"{len(set(written) - set(sent))} of {len(written)} records are lost"
    [arrived] = machines.central.iterdir()
    subprocess.run(["sh", "-c", IN_ORDER.replace("from-10.0.0.17.jsonl", str(arrived))], cwd=tmp_path, check=True)
    with (tmp_path / "whole.jsonl").open("rb") as whole:
        result = verify(whole)
    assert (result.ok, result.records) == (True, len(written)), result
