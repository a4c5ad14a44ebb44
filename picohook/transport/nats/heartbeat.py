"""Publishes the status of a host every few seconds, for `picohook fleet`."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio

from ...errors import NatsError
from ...wire.version import VERSION
from . import subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .connection import NatsConnection

EVERY = 5.0
"""Seconds between two messages."""
SPREAD = 0.1
"""The share by which an interval may be shorter or longer, so that hosts do not all publish at the same time."""
RUNNING, ENDED = "running", "ended"
_OF_PROOFS = ("every", "verdict", "last_denial_age", "proofs", "alarms")


class Heartbeat:
    """Publishes the status of a host until cancelled. `status` and `config` return what is in force.

    `id` names the run of the host, which began at `began`. Both stay when the host moves to another server.
    """

    def __init__(
        self,
        connection: NatsConnection,
        status: Callable[[], Mapping[str, Any]],
        config: Callable[[], Mapping[str, str]],
        *,
        id: str,  # noqa: A002 - what it is
        began: float,
    ) -> None:
        self._connection = connection
        self._status = status
        self._config = config
        self._began = began
        self._rated_at = time.monotonic()
        self._rated = 0
        self._rate: float | None = None
        self._id = id
        self._changed = anyio.Event()

    async def run(self) -> None:
        """Publish at once, at each interval, whenever the connection is there again, and once more at the end."""
        self._connection.on_change.add(self._wake)
        try:
            while True:
                self._changed = anyio.Event()
                self._publish(RUNNING)
                with anyio.move_on_after(EVERY * random.uniform(1 - SPREAD, 1 + SPREAD)):  # noqa: S311 - spreads load
                    await self._changed.wait()
        finally:
            self._connection.on_change.discard(self._wake)
            self._publish(ENDED)

    def _wake(self) -> None:
        self._changed.set()

    def _publish(self, state: str) -> None:
        settings = self._connection.settings
        name = settings.host or socket.gethostname()
        body: dict[str, Any] = {"host": name, "id": self._id, "state": state, "every_s": EVERY, **self._config()}
        body |= summary(self._status())
        body |= {"up_s": round(time.monotonic() - self._began, 1), "calls_per_second": self._per_second(body["calls"])}
        with contextlib.suppress(NatsError):  # there is no connection to publish on
            self._connection.publish(subjects.host(settings.tenant, name), json.dumps(body).encode())

    def _per_second(self, calls: int) -> float | None:
        """The rate of the last interval; None before its end."""
        now = time.monotonic()
        spent = now - self._rated_at
        if spent >= EVERY * (1 - SPREAD):
            # Counts of hooks that a reload replaced are gone.
            self._rate = round(max(calls - self._rated, 0) / spent, 3)
            self._rated, self._rated_at = calls, now
        return self._rate


def summary(status: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a host's status that it publishes. `status` is the JSON form of `HostStatus`."""
    failures: Counter[str] = Counter()
    calls = 0
    for hook in status["hooks"]:
        for stage in hook["stages"].values():
            calls += stage["executions"]
            failures.update(stage["failures"])
    proofs = status["proof_of_life"]
    return {
        "version": VERSION,
        "calls": calls,
        "failures": dict(failures),
        "hooks": {hook["name"]: hook["state"] for hook in status["hooks"]},
        "proof_of_life": None if proofs is None else {name: proofs[name] for name in _OF_PROOFS},
    }
