"""A worker's answers to `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS`, in the form of NATS micro services."""

from __future__ import annotations

import functools
import json
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...wire.version import VERSION
from . import subjects

if TYPE_CHECKING:
    from collections.abc import Callable

    from .connection import Listening, NatsConnection
    from .message import Message

VERBS = ("PING", "INFO", "STATS")
_TYPE = "io.nats.micro.v1.{}_response"


@dataclass(slots=True)
class ServedHook:
    """A hook that a worker serves, with its counts."""

    name: str
    subject: str
    requests: int = 0
    errors: int = 0
    busy: int = 0
    """Questions that were refused because too many were in flight."""
    cancelled: int = 0
    """Questions that the host cancelled, or whose time was over."""
    in_flight: int = 0
    seconds: float = 0.0
    """The time of all answers together."""
    last_error: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(11))
    """The instance, which is unique."""
    started: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z")

    def wire(self, verb: str, metadata: dict[str, str], data: dict[str, Any]) -> dict[str, Any]:
        """The answer to a verb. `data` is added to the statistics."""
        about = {
            "type": _TYPE.format(verb.lower()),
            "name": subjects.token(self.name),
            "id": self.id,
            "version": _SEMVER,
        }
        about["metadata"] = metadata  # type: ignore[assignment]
        if verb == "PING":
            return about
        group = subjects.token(self.name)
        endpoint: dict[str, Any] = {"name": group, "subject": self.subject, "queue_group": group}
        if verb == "INFO":
            return {**about, "description": f"the hook {self.name}", "endpoints": [{**endpoint, "metadata": {}}]}
        spent = int(self.seconds * 1e9)
        counts = {
            "num_requests": self.requests,
            "num_errors": self.errors,
            "last_error": self.last_error,
            "processing_time": spent,
            "average_processing_time": spent // self.requests if self.requests else 0,
            "data": {"in_flight": self.in_flight, "busy": self.busy, "cancelled": self.cancelled, **data},
        }
        return {**about, "started": self.started, "endpoints": [{**endpoint, **counts}]}


_SEMVER = VERSION if VERSION.count(".") == 2 else "0.0.0"  # noqa: PLR2004 - as semantic versions have


async def tell(
    connection: NatsConnection, hook: ServedHook, answer: Callable[[ServedHook, str, Message], None]
) -> list[Listening]:
    """Call `answer` with each request for one of the `VERBS`, until all of what is returned is stopped."""
    return [
        await connection.listen(subject, functools.partial(answer, hook, verb))
        for verb in VERBS
        for subject in (
            f"$SRV.{verb}",
            subjects.service(verb, hook.name),
            subjects.service(verb, hook.name, hook.id),
        )
    ]


def encoded(answer: dict[str, Any]) -> bytes:
    """The bytes of an answer."""
    return json.dumps(answer).encode()
