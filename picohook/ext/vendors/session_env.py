"""Environment variables that handlers set for later handlers of the same file and session."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...hooks.base import HostServices

MOST_SESSIONS = 4096


class SessionEnv:
    """The variables of each file and session. The oldest sessions are forgotten.

    A file never sets variables for another one: a project's file could otherwise disable the guards of its user.
    """

    def __init__(self, _host: HostServices | None = None) -> None:
        self._set: OrderedDict[tuple[str, str], dict[str, str]] = OrderedDict()

    def add(self, file: str, session: str, env: Mapping[str, str]) -> None:
        """Set variables for the handlers of a file that run later in a session."""
        self._set.setdefault((file, session), {}).update(env)
        self._set.move_to_end((file, session))
        if len(self._set) > MOST_SESSIONS:
            self._set.popitem(last=False)

    def of(self, file: str, session: str) -> Mapping[str, str]:
        """The variables for the handlers of a file in a session."""
        return self._set.get((file, session), {})
