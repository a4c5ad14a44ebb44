"""The host of `picohook shim`, which its client starts: `python -E -P -m picohook.ext.vendors.shim.host KEY SOCKET ...`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ....cli.host import garbage_collected_rarely, has_uvloop
from ....errors import PicohookError
from ....host import Host
from ....observe.log import Log
from ....rpc.listening_socket import ListeningSocket
from ....wire import written_files
from ....wire.text import explain
from ..alone import ask_host
from ..dialects import vendor_named
from .server import IDLE, Sessions, ShimHost, ShimServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..vendor import Vendor


def main() -> None:
    """Serve until no client has come for a while. Writes `ready` into the client's pipe, or why it cannot start."""
    key, path, output, lock, vendor, project, config = sys.argv[1:]
    descriptors = [int(output), int(lock)]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # no hook gets them

    def tell(what: bytes) -> None:
        """Write a message for the client, and release the lock, so that the next client looks for this host."""
        if descriptors:
            os.write(descriptors[0], what)
        while descriptors:
            os.close(descriptors.pop())

    try:
        os.chdir(project)
        work = partial(serve, key, path, vendor_named(vendor), project, config, ready=partial(tell, b"ready"))
        anyio.run(work, backend_options={"use_uvloop": has_uvloop()})
    except PicohookError as error:
        tell(str(error).encode("utf-8", "replace")[:60_000])
        raise SystemExit(str(error)) from None
    except Exception as error:
        tell(explain(error).encode("utf-8", "replace"))
        raise


def host_of(vendor: Vendor, project: str, config: str) -> Host:
    """The host with the hooks of this configuration, or of those found. Raises `ConfigError`."""
    return Host.from_config(config) if config else Host.discover(project, without=vendor.shim.runs)


async def serve(
    key: str,
    path: str,
    vendor: Vendor,
    project: str,
    config: str,
    *,
    ready: Callable[[], None],
    idle: float = IDLE,
) -> None:
    """Serve until no client has come for a while. Calls `ready` when it listens. Raises `PicohookError` if it cannot start."""
    async with host_of(vendor, project, config) as host:
        notes = _note(key)  # before a client can find the socket
        began = None if config else Sessions(notes, vendor.agent, project, partial(_projects, host)).began
        behind = ShimHost(host, vendor, host.reloader.source.changed, began)
        listening = await ListeningSocket.at_path(path, "the shim's socket")
        server = ShimServer(listening, behind.answer, key, Log())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, server.end)  # it answers the clients that have connected
        ready()
        with garbage_collected_rarely():
            await server.run(idle)


def _projects(host: Host) -> list[Path]:
    return [config.project for config in host.reloader.source.layers.configs if config.layer == "project"]


def _note(key: str) -> str:
    """Note this process where clients look for it. Returns the directory of such notes. Raises `PicohookError`."""
    path = ask_host.record_path(key)
    try:
        with written_files.place(path, own=True, make=0o700) as place:
            place.replace(ask_host.record_of(os.getpid()), mode=0o600)
    except OSError as error:
        raise PicohookError(
            f"{path} cannot be written: {error.strerror or error} (a host that a sandbox holds cannot answer: start the agent "
            "outside of it, or set XDG_CONFIG_HOME)"
        ) from None
    return os.path.dirname(path)


if __name__ == "__main__":
    main()
