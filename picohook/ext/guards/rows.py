"""How the words of programs are read. The table is `programs.toml`."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .words import Word

_VERSIONED = re.compile(
    r"(python|pypy|perl|ruby|node|php|lua|pip|gcc|g\+\+|clang|bash|pwsh|gawk)[-.]?\d[\d._a-z]*|(ld-linux|mkfs|vim)[-\d._a-z]*"
)


@dataclass(frozen=True, slots=True)
class Row:
    """How a program's words are read. See `programs.toml`."""

    name: str
    values: str = ""
    long: tuple[str, ...] = ()
    single: bool = False
    stop: bool = False
    subs: int = 0
    runs: str = ""
    skip: int = 0
    assign: bool = False
    unless: frozenset[str] = frozenset()
    effect: str = "read-maybe"
    text: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


USUAL = Row("")
"""A program that the table does not have."""


@functools.cache
def table() -> dict[str, Row]:
    """The rows, by the programs' names."""
    with Path(__file__).with_name("programs.toml").open("rb") as file:
        document = tomllib.load(file)
    rows: dict[str, Row] = {}
    for name, keys in document.items():
        if "same_as" in keys:
            rows[name] = replace(rows[keys["same_as"]], name=keys["same_as"])
            continue
        made: dict[str, Any] = {"name": name, **keys}
        made["long"] = tuple(keys.get("long", ()))
        made["unless"] = frozenset(keys.get("unless", ()))
        for key in ("text", "code", "output"):
            made[key] = tuple(keys.get(key, "").split())
        rows[name] = Row(**made)
    return rows


def row_of(name: str) -> Row:
    """The row of a program; one without anything if the table does not have it."""
    rows = table()
    row = rows.get(name)
    if row is None:
        found = _VERSIONED.fullmatch(name)
        row = rows.get(found[1] or found[2], USUAL) if found else USUAL
    return row


def split(words: Sequence[Word], row: Row) -> tuple[dict[str, str], list[Word]]:
    """Returns the options and the operands of a command's words, of which the first is its name."""
    options: dict[str, str] = {}
    operands: list[Word] = []
    at, count = 1, len(words)
    while at < count:
        word = words[at]
        text = word.text
        at += 1
        if len(text) < 2 or text[0] != "-":
            operands.append(word)
            if row.stop:
                operands += words[at:]
                break
        elif text == "--":
            options.setdefault("--", "")
            operands += words[at:]
            break
        elif text[1] == "-" or row.single:
            name, equals, value = text.partition("=")
            bare = name.lstrip("-")
            if not equals and at < count and _takes_value(bare, row):
                value = words[at].text
                at += 1
            options[name] = value
        else:
            if len(text) > 2:
                options[text] = ""
            for place in range(1, len(text)):
                letter = text[place]
                if letter in row.values:
                    value = text[place + 1 :]
                    if not value and at < count:
                        value = words[at].text
                        at += 1
                    options.pop(f"-{letter}", None)  # the last one wins: it stands last
                    options[f"-{letter}"] = value
                    break
                options.pop(f"-{letter}", None)
                options[f"-{letter}"] = ""
    return options, operands


def _takes_value(name: str, row: Row) -> bool:
    if name in row.long:
        return True
    return len(name) > 2 and sum(one.startswith(name) for one in row.long) == 1 and not row.single


DOCKER_RUN = Row(
    "docker-run",
    "vepwuhlmac",
    (
        *(
            "volume",
            "env",
            "publish",
            "workdir",
            "user",
            "hostname",
            "label",
            "memory",
            "cpus",
            "name",
            "network",
            "mount",
            "entrypoint",
        ),
        *(
            "env-file",
            "add-host",
            "platform",
            "cap-add",
            "cap-drop",
            "device",
            "gpus",
            "ipc",
            "link",
            "log-driver",
            "pid",
            "pull",
            "restart",
        ),
        *(
            "runtime",
            "security-opt",
            "shm-size",
            "tmpfs",
            "ulimit",
            "volumes-from",
            "net",
            "dns",
            "expose",
            "health-cmd",
            "index",
        ),
    ),
    stop=True,
)
"""`docker run` and `docker exec`: their options end at the image."""
