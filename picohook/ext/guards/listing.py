"""The files that a command lists for others: what `find` finds, and the output of `git ls-files`, `rg -l`, `ls`."""

import itertools
import re
from collections.abc import Sequence

from .names import listed as named
from .reading import Command
from .words import PLAIN, UNKNOWN, Word, unknown

_LISTERS = frozenset(["find", "fd", "fdfind", "ls", "rg", "grep", "egrep", "fgrep", "git", "ag", "ack", "locate"])
_FILTERS = named("filters")
_TESTS = named("find-tests")
_FIRST = re.compile(r"-[HLPEXdsx]+|-O\d|--")
"""Options of `find` that stand before the places where it begins."""


def listed(commands: Sequence[Command]) -> list[Word] | None:
    """The files that these commands name, as words; None if they are not known."""
    lister = next((one for one in commands if one.name in _LISTERS and not one.wraps), None)
    if lister is None or any(one.name not in _FILTERS | _LISTERS for one in commands):
        return None
    words = lister.operands
    if lister.name == "find":
        return _found([word.text for word in lister.words[1:]])
    if lister.name in {"ls", "fd", "fdfind"}:
        starts = words if lister.name == "ls" else []
        return [word if word.glob else _in(word.text) for word in starts or [Word(".")]]
    if lister.name == "git" and words and words[0].text not in {"ls-files", "diff", "grep", "status", "show"}:
        return None
    if any(word.text.startswith(("/", "..", "~")) or unknown(word.text) for word in words[1:]):
        return [_in(word.text) for word in words[1:]]
    return [Word(PLAIN)]


def _in(directory: str, name: str = PLAIN, *, glob: bool = False) -> Word:
    return Word(f"{directory.rstrip('/')}/{name}", glob)


def _found(texts: list[str]) -> list[Word]:
    """Returns what a `find` with these words finds, as words: one for each start, or for each name in it."""
    texts = [*itertools.dropwhile(_FIRST.fullmatch, texts)]
    starts = [*itertools.takewhile(lambda text: text[:1] not in {"-", "(", "!", ","}, texts)]
    tests = texts[len(starts) :]
    names = [value for test, value in itertools.pairwise(tests) if test in {"-name", "-iname"}]
    groups = [{*group} for is_or, group in itertools.groupby(tests, {"-o", "-or"}.__contains__) if not is_or]
    are_named = all({"-name", "-iname", "-prune"} & group for group in groups)  # not so in `-name x -o -delete`
    starts = starts or ["." if not tests or tests[0] in _TESTS or tests[0][:1] != "-" else UNKNOWN]
    if "-empty" in texts:
        return [Word(UNKNOWN)] if any(map(unknown, starts)) else [_in(start, "__pycache__/empty") for start in starts]
    if names and not {"!", "-not", ","} & set(texts) and are_named and all(name.strip("*?.") for name in names):
        return [_in(start, name, glob=True) for start in starts for name in names]
    return [Word(start) for start in starts]


def filled(word: Word, found: Word, mark: str = "{}") -> Word:
    """Returns the word with a found file in place of the mark."""
    if mark not in word.text:
        return word
    return Word(word.text.replace(mark, found.text), found.glob or word.glob, found.inside)
