"""How processes are started: the interface between a `Child` and the tiers of containment (`picohook.contain`)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from .plan import Plan

    Streams = tuple[int, int, int]

TRANSIENT = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
"""Errors that the machine causes, not the hook."""


class NotAvailableError(ValueError):
    """This machine cannot provide what a hook's settings ask for."""


class SpawnedProcess(Protocol):
    """A started process, the leader of its own session and process group."""

    @property
    def pid(self) -> int:
        """Its number, as the host sees it."""

    @property
    def exit_code(self) -> int | None:
        """As in `subprocess`: negative for a signal. It is valid once `when_ended` has called back."""

    @property
    def tier(self) -> str:
        """The tier of containment that holds its descendants."""

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Call back once, in a later round of the event loop, when it has ended and its group was killed."""

    def signal(self, number: int) -> None:
        """Signal its whole group, if it has not ended."""

    def kill_launcher(self) -> None:
        """It survived SIGKILL: if its launcher does not react, kill the launcher, and the process with it."""


class Spawner(Protocol):
    """Starts processes."""

    async def spawn(self, plan: Plan, streams: Streams, deadline: float) -> SpawnedProcess:
        """Start a process with these three descriptors, which remain the caller's.

        Raises `OSError`, `ValueError` or `TimeoutError`. Then, and if cancelled, no process is left.
        """
