"""Chooses the reactor of the event loop that runs this code: asyncio or trio."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .reactor import Reactor


def current_reactor() -> Reactor:
    """The reactor of the event loop that runs this code. Raises `RuntimeError` if none does."""
    if "asyncio" in sys.modules:  # it is slow to import, and cannot run if it was not imported
        import asyncio  # noqa: PLC0415

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            from .on_asyncio import AsyncioReactor  # noqa: PLC0415 - slow to import

            return AsyncioReactor()
    from .on_trio import TrioReactor  # noqa: PLC0415 - slow to import

    return TrioReactor()
