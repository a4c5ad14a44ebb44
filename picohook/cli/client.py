"""A host's control socket, from the other side."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, cast

import typer

from ..errors import ConfigError, PicohookError, Problem

PATIENCE = 30.0
"""Seconds in which a host that is well answers what asks for no waiting."""

Socket = Annotated[
    Path,
    typer.Option(
        "--control", metavar="PATH", help="The host's control socket: Host(control=PATH).", show_default=False
    ),
]


def ask(control: Path, method: str, params: Any = None, *, patience: float | None = PATIENCE) -> Any:
    """What a host answers to one request."""
    with connected(control, patience) as connection:
        return request(connection, method, params)


@contextmanager
def connected(control: Path, patience: float | None) -> Iterator[IO[bytes]]:
    """A connection to a host, as a file of lines; what goes wrong with it is a `PicohookError` that names the socket."""
    with opened(control, patience) as connection, connection.makefile("rwb") as file:
        yield cast(IO[bytes], file)


@contextmanager
def opened(control: Path, patience: float | None) -> Iterator[socket.socket]:
    """The same as a socket, for who waits for other things beside it."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(patience)
            connection.connect(str(control))
            yield connection
    except TimeoutError:
        raise PicohookError(f"the host at {control} does not answer") from None
    except (FileNotFoundError, ConnectionRefusedError):
        raise PicohookError(f"no host has its control socket at {control}") from None
    except OSError as error:
        raise PicohookError(f"the control socket {control} cannot be used: {error.strerror or error}") from None


def request(connection: IO[bytes], method: str, params: Any = None) -> Any:
    """What the host at the other end answers."""
    send(connection, method, params)
    return receive(connection)


def send(connection: IO[bytes], method: str, params: Any = None) -> None:
    """Ask, and leave it to `receive` to wait for the answer."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    connection.write(json.dumps(asked).encode() + b"\n")
    connection.flush()


def receive(connection: IO[bytes]) -> Any:
    """The answer to what was sent."""
    line = connection.readline()
    if not line:
        raise PicohookError("the host hung up without an answer")
    reply = json.loads(line)
    error = reply.get("error")
    if error and "data" in error:
        raise ConfigError(Problem(**problem) for problem in error["data"]["problems"])
    if error:
        raise PicohookError(error["message"])
    return reply["result"]
