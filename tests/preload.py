"""The process that `preloaded` forks: it has imported the whole command line, and becomes `python -m picohook` when asked."""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import picohook.cli
from picohook import models
from picohook.__main__ import main
from picohook.config import load

EXAMPLE = Path(__file__).parents[1] / "hooks_examples" / "picohook.toml"


def warm_up() -> None:
    """Import and build what commands import and build at its first use, and what is the same for all of them."""
    for name in ("rich.live", "rich.progress", "rich.table", "anyio._backends._asyncio"):
        importlib.import_module(name)
    for found in pkgutil.walk_packages(picohook.cli.__path__, "picohook.cli."):
        importlib.import_module(found.name)
    for model in vars(models).values():
        if isinstance(model, type) and issubclass(model, models.Model):
            model.model_rebuild()
    load(EXAMPLE)
    gc.freeze()


def serve(requests: socket.socket) -> None:
    """Fork for each request a keeper, and that a program. Returns in each program, as what it was asked to be."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, fds, _, _ = socket.recv_fds(requests, 1, 4)
        if not data:
            os._exit(0)
        if not os.fork():
            requests.close()
            report, *streams = fds
            keep(socket.socket(fileno=report), streams)
            return
        for fd in fds:
            os.close(fd)


def keep(report: socket.socket, streams: list[int]) -> None:
    """Start the program, wait for it, and tell how it ended. Returns in the program."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with report.makefile("r") as orders:
        order = json.loads(orders.readline())
    pid = os.fork()
    if not pid:
        report.close()
        become(order, streams)
        return
    for fd in streams:
        os.close(fd)
    report.sendall(b"%d\n" % pid)
    report.sendall(b"%d" % os.waitpid(pid, 0)[1])
    os._exit(0)


def become(order: dict[str, Any], streams: list[int]) -> None:
    """Have the streams, the directory, the environment and the arguments of a program that was just started."""
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv, sys.path[0] = ["picohook", *order["arguments"]], order["cwd"]
    sys.stdin = open(0, closefd=False)
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False))
    sys.stderr = io.TextIOWrapper(open(2, "wb", closefd=False), errors="backslashreplace", line_buffering=True)


if __name__ == "__main__":
    if not os.fork():
        os.setsid()
        warm_up()
        serve(socket.socket(fileno=int(sys.argv[1])))
        main()
