"""The control socket: a running host is looked at and acted on through it, by who may open it, its owner.

JSON-RPC 2.0 over a Unix socket, one message a line; the methods are those of `operating`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from .client import Client, Limits, both_ways
from .door import Door
from .operating import OPERATING, Operator
from .place import Place
from .table import Table

if TYPE_CHECKING:
    import os
    import socket

    from ..engine.engine import Engine
    from ..observe.log import Log

MAX_LINE = 64 * 1024
"""Bytes of a request."""
MAX_CLIENTS = 32
BEHIND = 1024
"""Notifications that a client may be behind before it is dropped."""

NOUN = "the control socket"
_LIMITS = Limits(line=MAX_LINE, in_flight=8, behind=BEHIND, last_words=0.0)
_TABLE = Table(OPERATING)


async def open_control(host: Engine, path: str | os.PathLike[str], log: Log) -> Door:
    """Listen there. What a dead host left there is replaced; that another program listens there is a `PicohookError`."""
    state = functools.partial(Operator, host)

    def admit(connection: socket.socket) -> Client:
        return Client(_TABLE, state, both_ways(connection), limits=_LIMITS, log=log, noun=NOUN)

    return Door(await Place.at(path, NOUN), admit, MAX_CLIENTS, log)
