"""Edits settings files of other programs. An edit replaces single values: all other text stays, and so do comments."""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..config import syntax
from ..errors import PicohookError
from ..wire import written_files

_STRING = r'("(?:[^"\\]|\\.)*")'
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_SPACE = re.compile(r"[\s,:]*")


class SettingsFile:
    """A settings file and its backup, as they were read. The arguments `own` and `below` are those of `written_files.place`."""

    def __init__(self, path: Path, suffix: str, *, own: bool = False, below: Path | None = None) -> None:
        """Read a file, and the backup whose name has this suffix. Raises `PicohookError`."""
        self.path = Path(os.path.realpath(path)) if own else path
        self.backup = self.path.with_name(self.path.name + suffix)
        self.data: bytes | None = None
        """The bytes of the file; None without one."""
        self.before: bytes | None = None
        """The bytes of the backup."""
        self._suffix, self._own, self._below = suffix, own, below
        try:
            with written_files.place(self.path, own=own, below=below) as place:
                self.data = place.read()
                self.before = place.beside(suffix).read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise PicohookError(f"{self.path} cannot be read: {error.strerror}") from None

    def write(self, data: bytes | None, before: bytes | None) -> None:
        """Replace the file and its backup. None removes one. Raises `PicohookError`, also if the file has changed since."""
        try:
            with written_files.place(self.path, own=self._own, below=self._below, make=0o755) as place:
                backup = place.beside(self._suffix)
                if (place.read(), backup.read()) != (self.data, self.before):
                    raise PicohookError(f"{self.path} changed after it was read: try again")
                if before is not None and before != self.before:
                    backup.replace(before, mode=place.mode)
                if data is None:
                    place.remove()
                else:
                    place.replace(data)
                if before is None and self.before is not None:
                    backup.remove()
        except OSError as error:
            raise PicohookError(f"{self.path} cannot be written: {error.strerror}") from None


class Member(NamedTuple):
    """A member of an object in a text."""

    place: tuple[str, ...]
    """The keys that lead to it. The last one is its name."""
    value: Any
    start: int
    """The place where the text of its value begins."""
    end: int

    @property
    def name(self) -> str:
        """Its own key."""
        return self.place[-1]


class JsonText:
    """JSON, maybe with comments and last commas, whose members can be replaced one by one."""

    def __init__(self, text: str) -> None:
        """Read a text. Raises `ValueError`."""
        self.text = text
        self.plain = _LAST_COMMA.sub(lambda found: found[1] or " ", syntax.without_comments(text))
        """The text with spaces in place of comments and last commas, so that all other text keeps its place."""
        self.document = json.loads(self.plain)

    def members(self, keys: Sequence[str] = (), at: int | None = None, place: tuple[str, ...] = ()) -> Iterator[Member]:
        """The members of the objects to which these keys lead, from the object that begins here. `*` is each key."""
        at = len(self.plain) - len(self.plain.lstrip()) if at is None else at
        if self.plain[at] != "{":
            return
        decoder = json.JSONDecoder()
        at = self._skip(at + 1)
        while self.plain[at] != "}":
            key, at = decoder.raw_decode(self.plain, at)
            start = self._skip(at)
            value, at = decoder.raw_decode(self.plain, start)
            if not keys:
                yield Member((*place, key), value, start, at)
            elif keys[0] in {key, "*"}:
                yield from self.members(keys[1:], start, (*place, key))
            at = self._skip(at)

    def value_at(self, place: int, value: Any) -> str:
        """Returns a value as JSON, with the indent of the line at this place."""
        indent = re.match(r"[ \t]*", self.text[self.text.rfind("\n", 0, place) + 1 :])
        return self._encoded(value, indent[0] if indent else "")

    def with_member(self, name: str, value: Any) -> str:
        """The text in which the document has this member: in its place, or before all others.

        Raises `ValueError` if comments would get lost.
        """
        text = self.text
        found = next((one for one in self.members() if one.name == name), None)
        if found is None:
            at = self.plain.index("{") + 1
            rest = text[at:].lstrip()
            line = newline_of(text) + self._unit
            member = f"{line}{json.dumps(name)}: {self._encoded(value, self._unit)}"
            after = f",{line}" if self.document else newline_of(text) if rest[0] == "}" else line
            return text[:at] + member + after + rest
        if self.comments(found.start, found.end):
            raise ValueError(f"`{name}` has comments, and an edit would lose them: move them out of it")
        return text[: found.start] + self.value_at(found.start, value) + text[found.end :]

    def comments(self, start: int = 0, end: int | None = None) -> list[str]:
        """The comments in the text, or in a value that begins and ends there."""
        found = syntax.COMMENT.finditer(self.text, start, len(self.text) if end is None else end)
        return [comment[0] for comment in found if not comment[1]]

    @property
    def _unit(self) -> str:
        unit = re.search(r"^([ \t]+)[\"}]", self.text, re.MULTILINE)
        return unit[1] if unit else "  "

    def _encoded(self, value: Any, indent: str) -> str:
        return encoded(value, self._unit).replace("\n", newline_of(self.text) + indent)

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self.plain, at)
        assert found is not None
        return found.end()


@contextlib.contextmanager
def understood(subject: Path | str, form: str) -> Iterator[None]:
    """Make each error of a parser a `PicohookError` about this file, or this part of one."""
    try:
        yield
    except RecursionError:
        raise PicohookError(f"{subject} is nested too deeply") from None
    except ValueError as error:
        problem = "cannot be edited" if type(error) is ValueError else f"is not {form}"
        raise PicohookError(f"{subject} {problem}: {error}") from None


def newline_of(text: str) -> str:
    """The ends of lines in a text."""
    return "\r\n" if "\r\n" in text else "\n"


def decoded(text: str) -> Any:
    """The value of a JSON text that is written again later. Raises `ValueError`, also for a key that is there twice."""
    return json.loads(text, object_pairs_hook=_table)


def encoded(value: Any, indent: str) -> str:
    """Returns a value as JSON. Half of a surrogate pair, which has no bytes, stays an escape. Raises `ValueError`."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"it has the key {next(filter(lambda name: names.count(name) > 1, names))!r} twice: keep one of them"
        )
    return table
