"""The files that a command lists for others: what `find` finds, and the output of `git ls-files`, `rg -l`, `ls`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from .names import listed as named
from .words import PLAIN, UNKNOWN, Word, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .reading import Command

_LISTERS = frozenset(["find", "fd", "fdfind", "ls", "rg", "grep", "egrep", "fgrep", "git", "ag", "ack", "locate"])
_FILTERS = named("filters")


def listed(commands: Sequence[Command]) -> list[Word] | None:
    """The files that these commands name, as words; None if they are not known."""
    lister = next((one for one in commands if one.name in _LISTERS and not one.wraps), None)
    if lister is None or not all(one.name in _FILTERS or one is lister or one.name in _LISTERS for one in commands):
        return None
    if lister.name in {"find", "gfind"}:
        return found(lister)
    if lister.name in {"ls", "fd", "fdfind"}:
        roots = [word for word in lister.operands if lister.name == "ls"] or [Word(".")]
        return [Word(f"{word.text.rstrip('/')}/{PLAIN}" if not word.glob else word.text, word.glob) for word in roots]
    if (
        lister.name == "git"
        and lister.operands
        and lister.operands[0].text not in {"ls-files", "diff", "grep", "status", "show"}
    ):
        return None
    if any(word.text.startswith(("/", "..", "~")) or unknown(word.text) for word in lister.operands[1:]):
        return [Word(f"{word.text.rstrip('/')}/{PLAIN}") for word in lister.operands[1:]]
    return [Word(PLAIN)]


def found(command: Command) -> list[Word]:
    """Returns what a `find` finds, as words: one for each start."""
    texts = [word.text for word in command.words[1:]]
    starts: list[str] = []
    while texts and (not texts[0].startswith(("-", "(", "!")) or texts[0] in {"-H", "-L", "-P"}):
        starts.append(texts.pop(0))
    starts = [start for start in starts if start not in {"-H", "-L", "-P"}] or ["."]
    names = [b for a, b in itertools.pairwise(texts) if a in {"-name", "-iname"}]
    paths = [b for a, b in itertools.pairwise(texts) if a in {"-path", "-ipath", "-wholename", "-regex"}]
    negated = any(a in {"!", "-not"} and b in {"-name", "-path", "-iname"} for a, b in itertools.pairwise(texts))
    wide = [name for name in names if not name.strip("*?.")]
    attributes = {"-mtime", "-mmin", "-size", "-empty", "-newer", "-atime", "-ctime", "-user", "-perm", "-links"} & set(
        texts
    )
    if "-empty" in texts:
        return (
            [Word(f"{start.rstrip('/')}/__pycache__/empty") for start in starts]
            if not any(unknown(s) for s in starts)
            else [Word(UNKNOWN)]
        )
    if names and not wide and not negated:
        return [Word(f"{start.rstrip('/') or ''}/{name}", True) for start in starts for name in names]
    if paths and not negated and all("/" in path.strip("*/.") or len(path.strip("*/.")) > 1 for path in paths):
        return [
            Word(
                f"{start.rstrip('/')}/{path.strip('*/.')}"
                if not path.startswith((start, "/"))
                else path.rstrip("*") + "x",
                True,
            )
            for start in starts
            for path in paths
        ]
    if attributes or ("-maxdepth" in texts and "-mindepth" not in texts and "f" in texts):
        return [Word(f"{start.rstrip('/')}/{PLAIN}") for start in starts]
    return [Word(start) for start in starts]


def filled(word: Word, found: Word, mark: str = "{}") -> Word:
    """Returns the word with a found file in place of the mark."""
    if mark not in word.text:
        return word
    return Word(word.text.replace(mark, found.text), found.glob or word.glob, found.inside)
