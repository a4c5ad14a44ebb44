"""The names of the packs, and lists of names."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

USUAL = ("shell", "git", "secrets", "network", "self")
"""The packs of a `[guards]` table that names none."""
ALL = (*USUAL, "packages", "cloud")


@functools.cache
def _lists() -> dict[str, Any]:
    with Path(__file__).with_name("lists.toml").open("rb") as file:
        return tomllib.load(file)


def listed(name: str) -> frozenset[str]:
    """The names of a list in `lists.toml`."""
    return frozenset(_lists()[name])


def pairs(name: str) -> dict[str, str]:
    """A table of `lists.toml`."""
    return dict(_lists()[name])
