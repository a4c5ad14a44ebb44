"""The files of one call: where they are, and what it writes and downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .places import Places


class CallFiles:
    """The files of one call."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.fetched: set[str] = set()
        """Files that it downloads."""
        self.texts: dict[str, str] = {}
        """Files that it writes, with their texts as far as they are known."""
