"""The control socket: clients inspect and control a running host. No payloads go through it.

It speaks JSON-RPC 2.0 over a Unix socket that only its owner may open, one message a line.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ...engine.order import in_order, layer
from ...engine.part import Part
from ...hooks.base import StateChange
from ...model.decisions import Outcome
from ...model.proof import Proof
from ...model.stages import STAGES
from ...rpc.connection import Connection, ConnectionLimits, two_descriptors
from ...rpc.dispatch import Dispatcher, Method, Params
from ...rpc.listening_socket import ListeningSocket
from ...rpc.socket_server import SocketServer

if TYPE_CHECKING:
    import os
    import socket
    from collections.abc import Callable, Mapping

    from ...engine.status import Reloaded
    from ...host import Host

MAX_CLIENTS = 32
NOUN = "the control socket"
LIMITS = ConnectionLimits(line=64 * 1024, in_flight=8, unread_max=1 << 20, drain=0.0)


class ControlPart(Part):
    """`Host(control=path)`: serves the control socket while the host runs."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    async def open(self, host: Host) -> None:
        context = functools.partial(ControlContext, host)

        def handle(connection: socket.socket) -> Connection:
            return Connection(DISPATCHER, context, two_descriptors(connection), limits=LIMITS, log=host.log, noun=NOUN)

        listening = await ListeningSocket.at_path(self._path, NOUN)
        host.begin_task(SocketServer(listening, handle, MAX_CLIENTS, host.log).run)


class ControlContext:
    """One client's access to a host."""

    def __init__(self, host: Host, connection: Connection) -> None:
        self.host = host
        self._connection = connection

    def notify(self, change: StateChange | Outcome[Any] | Reloaded | Proof) -> None:
        """Notify the client of a change that it watches."""
        self._connection.notify(*_notification(change))

    async def aclose(self) -> None:
        """The connection has ended."""
        self.host.on_change.discard(self.notify)


def _notification(change: StateChange | Outcome[Any] | Reloaded | Proof) -> tuple[str, Mapping[str, Any]]:
    """The method and params of the notification."""
    if isinstance(change, StateChange):
        return "state", {"hook": change.hook, "state": change.state, "pid": change.pid}
    if isinstance(change, Proof):
        return "proof", change.wire()
    if not isinstance(change, Outcome):
        return "reloaded", change.wire()
    trail = [{key: value for key, value in entry.wire().items() if key != "notes"} for entry in change.trail]
    params = {"stage": change.stage, "action": change.action, "hook": change.hook, "reason": change.reason}
    return "outcome", params | {"trail": trail} | ({} if change.approved is None else {"approved": change.approved})


class HookParams(Params):
    """The name of a hook."""

    hook: str


def _listed(host: Host) -> dict[str, Any]:
    """The hooks of each stage in order, and those that observe."""
    stages = {
        name: [
            {
                "hook": hook.name,
                "layer": layer(hook),
                "timeout": hook.spec.timeout_at(name, host.timeouts, approves=stage.approves),
            }
            for hook in host.asked_at(name)
        ]
        for name, stage in STAGES.items()
    }
    observers = [
        {"hook": hook.name, "layer": layer(hook), "observe": [*hook.spec.observe]}
        for hook in in_order(host.hooks)
        if hook.spec.observe
    ]
    return {"stages": {name: hooks for name, hooks in stages.items() if hooks}, "events": observers}


def _metrics(host: Host) -> str:
    from ..prometheus.metrics import prometheus  # needs an extra

    return prometheus(host.status().wire())


def _method(name: str, call: Callable[..., Any], params: type[Params] = Params) -> Method:
    """A method that calls this function with the host and the values of its params. The JSON of nothing is true."""

    async def answer(context: ControlContext, given: Params) -> Any:
        result = call(context.host, **dict(given))
        result = await result if hasattr(result, "__await__") else result
        if isinstance(result, tuple):
            return [one.wire() for one in result]
        return True if result is None else result.wire() if hasattr(result, "wire") else result

    return Method(name, answer, params)


async def _watch(context: ControlContext, _: Params) -> bool:
    context.host.on_change.add(context.notify)
    return True


CONTROL_METHODS = (
    _method("status", lambda host: host.status()),
    _method("list", _listed),
    _method("metrics", _metrics),
    _method("reload", lambda host: host.reload()),
    _method("prove", lambda host: host.prove_life()),
    _method("reset", lambda host, hook: host.reset(hook), HookParams),
    _method("restart", lambda host, hook: host.restart(hook), HookParams),
    Method("watch", _watch),
)
"""Every method of the control socket. The sidecar has them too, and describes them."""

DISPATCHER = Dispatcher(CONTROL_METHODS)
