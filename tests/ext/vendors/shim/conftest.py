from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from picohook.ext.vendors.alone import ask_host
from picohook.ext.vendors.shim import client

PATIENCE = "60"
"""Seconds of a client that is to be answered."""


class Shim:
    """A project with a directory for sockets, and clients that are started in it."""

    def __init__(self, place: Path) -> None:
        self.project = place / "project"
        self.project.mkdir()
        self.runtime = place / "run"
        self.runtime.mkdir(mode=0o700)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "LC_ALL": "C.UTF-8",  # without a locale, Python would set one
            "XDG_RUNTIME_DIR": str(self.runtime),
            "XDG_CONFIG_HOME": str(place / "config"),
        }

    @property
    def sockets(self) -> Path:
        return self.runtime / "picohook"

    def command(self, vendor="claude", event="PreToolUse", on_failure="deny", patience=PATIENCE, config=""):
        words = [sys.executable, "-I", "-S", client.__file__, vendor, event, on_failure, patience]
        return [*words, config] if config else words

    def start(self, *of: Any, **settings: Any) -> subprocess.Popen[bytes]:
        environment = {**self.environment, **settings.pop("env", {})}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        cwd = settings.pop("cwd", self.project)
        return subprocess.Popen(self.command(*of, **settings), cwd=cwd, env=environment, **pipes)

    def ask(self, event: bytes, *of: Any, **settings: Any) -> tuple[int, str, str]:
        """The exit code, standard output and standard error of a client that is told this event."""
        running = self.start(*of, **settings)
        out, err = running.communicate(event, timeout=120)
        return running.returncode, out.decode(), err.decode()

    def note(self, record: bytes, mode: int = 0o600, key: str = "") -> Path:
        """Write which process is the host."""
        path = Path(self.environment["XDG_CONFIG_HOME"]) / "picohook" / "hosts" / (key or self.key())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record)
        path.chmod(mode)
        return path

    def key(self, vendor: str = "claude", config: str = "", project: Path | None = None) -> str:
        """What clients in this project look for."""
        environment = {os.fsencode(name): os.fsencode(value) for name, value in self.environment.items()}
        return ask_host._key(vendor, str(project or self.project), config, environment)


@pytest.fixture
def shim():
    place = Path(tempfile.mkdtemp(prefix="p"))  # the path of a socket has to be short
    yield Shim(place)
    shutil.rmtree(place)


@pytest.fixture
def fake_host(shim):
    """A program at the place of the host, which reads a whole request and then answers something, or nothing."""

    @contextmanager
    def serving(answer: bytes | None, mode: int = 0o600, *, noted: bool = True, **of: Any):
        key = shim.key(**of)
        if noted:
            shim.note(ask_host.record_of(os.getpid()), key=key)
        shim.sockets.mkdir(mode=0o700, exist_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(shim.sockets / key))
        os.chmod(shim.sockets / key, mode)
        listening.listen()

        def serve() -> None:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has refused
                if answer is None:
                    connection.recv(1)
                    connection.recv(1 << 20)  # until the client has gone
                    while connection.recv(1 << 20):
                        pass
                    return
                connection.recv(1 << 20)
                connection.sendall(answer.replace(b"KEY", key.encode()))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()
            thread.join()

    return serving
