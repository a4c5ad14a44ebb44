"""The process that `preloaded` forks: it has imported the whole command line, and becomes `python -m picohook` when asked.

It is asked at a socket, with three descriptors and an order, a line of JSON. It answers with the pid of the program, and with
its wait status once it has ended.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import picohook.cli
from picohook.__main__ import main
from picohook.config import load
from picohook.model import payloads as models

EXAMPLE = Path(__file__).parents[1] / "hooks_examples" / "picohook.toml"


def warm_up() -> None:
    """Import and build what commands import and build at its first use, and what is the same for all of them."""
    for name in ("rich.live", "rich.progress", "rich.table", "anyio._backends._asyncio"):
        importlib.import_module(name)
    for found in pkgutil.walk_packages(picohook.cli.__path__, "picohook.cli."):
        importlib.import_module(found.name)
    for model in vars(models).values():
        if isinstance(model, type) and issubclass(model, models.FrozenModel):
            model.model_rebuild()
    load(EXAMPLE)
    gc.freeze()


def serve(place: socket.socket, lifeline: int) -> None:
    """Fork for each request a keeper, and that a program. Returns in each program, as what it was asked to be.

    Ends the process when nobody holds the other end of the lifeline any more.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while place in select.select([place, lifeline], [], [])[0]:
        asked, _ = place.accept()
        if not os.fork():
            place.close()
            os.close(lifeline)
            keep(asked)
            return
        asked.close()
    os._exit(0)


def keep(asked: socket.socket) -> None:
    """Start the program, wait for it, and tell how it ended. Returns in the program."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    line, streams, _, _ = socket.recv_fds(asked, 65536, 3)
    while not line.endswith(b"\n"):
        line += asked.recv(65536)
    pid = os.fork()
    if not pid:
        asked.close()
        become(json.loads(line), streams)
        return
    for fd in streams:
        os.close(fd)
    asked.sendall(b"%d\n" % pid)
    asked.sendall(b"%d\n" % os.waitpid(pid, 0)[1])
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
    with socket.socket(socket.AF_UNIX) as place:
        place.bind(sys.argv[1])
        place.listen()
        if not os.fork():
            os.setsid()
            warm_up()
            serve(place, int(sys.argv[2]))
            main()
