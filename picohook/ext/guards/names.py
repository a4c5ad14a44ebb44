"""The names of the packs, and the data beside the code."""

import functools
import tomllib
from pathlib import Path
from typing import Any

USUAL = ("shell", "git", "secrets", "network", "self")
"""The packs of a `[guards]` table that names none."""
ALL = (*USUAL, "packages", "cloud")


@functools.cache
def data(name: str) -> dict[str, Any]:
    """A file of data beside the code, such as `lists`. Raises `OSError` or `ValueError` if it cannot be read."""
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))


def listed(name: str) -> frozenset[str]:
    """The names of a list in `lists.toml`."""
    return frozenset(data("lists")[name])


@functools.cache
def secrets() -> tuple[str, ...]:
    """Patterns of what looks like a secret in a text: those of the list, and those of the rule `secrets.write-down`."""
    rules = data("packs/secrets")["rule"]
    return (*data("lists")["secrets"], next(rule["detail"] for rule in rules if rule["id"] == "secrets.write-down"))


def secret_name() -> str:
    """The pattern of names whose values are secrets."""
    return "|".join(data("lists")["secret-names"])
