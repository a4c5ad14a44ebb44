"""A NATS server for tests, on a free port of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path


def program() -> str | None:
    """The server to test with: the one that PICOHOOK_NATS_SERVER names, or the one on the path."""
    return os.environ.get("PICOHOOK_NATS_SERVER") or shutil.which("nats-server", path=f"{os.environ['PATH']}:/usr/sbin")


class Server:
    """A server that can be killed, stopped and started again on the same port."""

    def __init__(self, *options: str, port: int = -1) -> None:
        self.options = options
        self.port = port
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        with tempfile.TemporaryDirectory() as ports:
            command = [program() or "", "-a", "127.0.0.1", "-p", str(self.port), "--ports_file_dir", ports]
            self.process = subprocess.Popen([*command, *self.options], stderr=subprocess.DEVNULL)
            file = Path(ports, f"{Path(command[0]).name}_{self.process.pid}.ports")
            ends = time.monotonic() + 30
            while self.process.poll() is None and time.monotonic() < ends:
                try:
                    (url,) = json.loads(file.read_text())["nats"]
                except (OSError, ValueError):
                    time.sleep(0.01)  # the server tells of its port by a file alone
                else:
                    self.port = int(url.rpartition(":")[2])
                    return
        raise RuntimeError("the NATS server does not start")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)
