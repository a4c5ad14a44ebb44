"""A client of a host's control socket."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, cast

import typer

from ...errors import ConfigError, PicohookError, Problem

TIMEOUT = 30.0
"""Seconds to wait for an answer that a host normally gives at once."""

Socket = Annotated[
    Path,
    typer.Option("--control", metavar="PATH", help="The control socket of the host: Host(control=PATH)."),
]


def ask(control: Path, method: str, params: Any = None, *, timeout: float | None = TIMEOUT) -> Any:
    """Returns the host's answer to one request. Raises `PicohookError` if no answer comes, or if the answer is an error."""
    with connected(control, timeout) as connection:
        return request(connection, method, params)


@contextmanager
def connected(control: Path, timeout: float | None) -> Iterator[IO[bytes]]:
    """Open a connection to a host as a file of lines. Raises its errors as `PicohookError` with the socket's path."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(str(control))
            with connection.makefile("rwb") as file:
                yield cast(IO[bytes], file)
    except TimeoutError:
        raise PicohookError(f"the host at {control} does not answer") from None
    except (FileNotFoundError, ConnectionRefusedError):
        raise PicohookError(f"no host has its control socket at {control}") from None
    except OSError as error:
        raise PicohookError(f"the control socket {control} cannot be used: {error.strerror or error}") from None


def request(connection: IO[bytes], method: str, params: Any = None) -> Any:
    """Send a request, and return the answer.

    Raises `ConfigError` if it lists mistakes of a configuration, `PicohookError` for another error.
    """
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    connection.write(json.dumps(message).encode() + b"\n")
    connection.flush()
    line = connection.readline()
    if not line:
        raise PicohookError("the host closed the connection without an answer")
    reply = json.loads(line)
    error = reply.get("error")
    if error and "data" in error:
        raise ConfigError(Problem(**problem) for problem in error["data"]["problems"])
    if error:
        raise PicohookError(error["message"])
    return reply["result"]
