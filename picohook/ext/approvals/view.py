"""A call as it is shown to a person, in the terminal and on the page."""

import difflib
import json
import os
import re
import time
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from ...model.conversation import text_of
from ...wire.regular_files import read_regular
from ...wire.text import escape
from .grants import offers
from .queue import Waiting
from .world import judge

MOST_SHOWN = 20_000
"""The most characters of a call's argument that are shown at once."""
MOST_COMPARED = 64 * 1024
"""The most bytes of a file that is compared with its new text."""
MOST_LINES = 2000
_OLD_AND_NEW = (("old_string", "new_string"), ("old_str", "new_str"), ("oldText", "newText"), ("old_text", "new_text"))
_NEW = ("content", "file_text", "contents")
_PATHS = ("file_path", "path", "filePath", "absolute_path", "notebook_path")
_WORD = re.compile(r"\w*[^\W\x00-\x7f]\w*")
_ODD = re.compile(r"[^\x00-\x7f]")
_DASH = re.compile(r"(?<!\S)[\u2010-\u2015\u2212\ufe58](?=\S)")
"""A dash where an option begins."""
_DATA = tomllib.loads(Path(__file__).with_name("plain.toml").read_text("utf-8"))
_LIKE_MARKS, _BLANK, _LIKE_LETTERS = (frozenset("".join(_DATA[name])) for name in ("marks", "blanks", "letters"))


class View(NamedTuple):
    """One call. All texts are safe to show."""

    id: str
    tool: str
    facts: list[tuple[str, str]]
    """Where it comes from, and why it is asked."""
    arguments: list[tuple[str, str]]
    diff: list[tuple[str, str]]
    """The lines of an edit, each with its sign; empty if the call is no edit."""
    left_out: str
    """What is not shown, and where it is; empty if all is shown."""
    offers: list[tuple[str, dict[str, Any]]]
    """The grants that a yes may have, each with a text that says all that it is for."""


def view(waiting: Waiting) -> View:
    """The view of a call. It reads the file that the call would overwrite, so it may wait for a disk."""
    about, is_cut = waiting.about, len(waiting.call) < waiting.size
    try:
        call = from_json(waiting.call, allow_partial="trailing-strings" if is_cut else False)
        if "tool" not in call and "response" in call:
            call = {**call, "tool": "the end of the turn", "arguments": {"response": text_of(call["response"])}}
        arguments = dict(call.get("arguments") or {})
    except (ValueError, TypeError, AttributeError):
        call, arguments = {"tool": "a call that cannot be read"}, {"call": waiting.call.decode("utf-8", "replace")}
    diff, compared = ([], set()) if is_cut else _diff(arguments, str(about.get("directory") or ""))
    shown = []
    for name, value in arguments.items():
        if name not in compared:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
            is_cut = is_cut or len(text) > MOST_SHOWN
            shown.append((plain(name), plain(text[:MOST_SHOWN])))
    size = max(waiting.size, len(waiting.call))
    left_out = f"This call is too large to be shown here: {size} bytes." if is_cut else ""
    offered = [] if is_cut or not about.get("grants") else offers(call, about)
    choices = [(plain(text), grant) for text, grant in offered]
    tool, facts = plain(str(call.get("tool"))), [*_facts(waiting, call, arguments)]
    return View(waiting.id, tool, facts, shown, diff, left_out, choices)


def _facts(waiting: Waiting, call: Mapping[str, Any], arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
    about, meta = waiting.about, call.get("meta") or {}
    program = f"{about.get('program') or 'a program'} (pid {about.get('pid')})"
    source = f" of {about['source']}" if about.get("source") else ""
    rule = ", ".join(f"{name} {value}" for name, value in (about.get("filter") or {}).items()) or "every call"
    judged, where = judge() if arguments else None, str(about.get("directory") or "/")
    rules = judged(str(call.get("tool")), arguments, where).rules if judged is not None else ()
    facts = {
        "paused": "\n".join(map(str, about.get("paused") or ())),
        "guards": "\n".join(f"{one.id}: {one.why}" for one in rules),
        "where": about.get("directory"),
        "agent": " ".join(filter(None, [meta.get("AgentID"), meta.get("Source"), f"in {program}"])),
        "session": meta.get("SessionKey"),
        "asked": f"by hook {about.get('hook')}{source}, which asks about {rule}",
        "kind": call.get("tool_kind"),
        "paths": ", ".join(map(str, call.get("affected_paths") or ())),
        "context": json.dumps(call["context"], ensure_ascii=False) if call.get("context") else "",
        "time left": f"{max(0, round(waiting.until - time.time()))} s",
    }
    return ((name, plain(str(value)[:MOST_SHOWN])) for name, value in facts.items() if value)


def _diff(arguments: Mapping[str, Any], directory: str) -> tuple[list[tuple[str, str]], set[str]]:
    """The lines of an edit, and the names of the arguments that they show; nothing if the call is no edit of a usual form."""
    for old, new in _OLD_AND_NEW:
        if isinstance(arguments.get(old), str) and isinstance(arguments.get(new), str):
            return _compared(arguments[old], arguments[new], {old, new}, "the text that it replaces")
    path = next((arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)), "")
    new = next((name for name in _NEW if isinstance(arguments.get(name), str)), "")
    if path and new and directory:
        file = os.path.join(directory, path)
        try:
            before = read_regular(file, MOST_COMPARED).decode()
        except (OSError, ValueError):
            return [], set()
        return _compared(before, arguments[new], {new}, file)
    return [], set()


def _compared(old: str, new: str, names: set[str], what: str) -> tuple[list[tuple[str, str]], set[str]]:
    before, after = old.split("\n"), new.split("\n")  # other ends of lines are shown as escapes
    if len(old) + len(new) > MOST_COMPARED * 2 or len(before) + len(after) > MOST_LINES:
        return [], set()
    rows = [*difflib.unified_diff(before, after, n=3, lineterm="")][2:]
    if not rows or sum(map(len, rows)) > MOST_SHOWN:
        return [], set()
    return [("@", plain(f"compared with {what}")), *((row[0], plain(row[row[0] != "@" :])) for row in rows)], names


# Text as a person sees it: what is invisible, acts on a screen, or looks like something else is an escape.


def plain(text: str) -> str:
    """The text with escapes for control characters, marks of direction, blanks and look-alikes. Lines and tabs stay."""
    if not text.isascii():
        text = _DASH.sub(_escaped, _WORD.sub(_word, text))
        text = _ODD.sub(_odd, text)
    return "\n".join("\t".join(map(escape, line.split("\t"))) for line in text.split("\n"))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def _word(found: re.Match[str]) -> str:
    """A word without look-alikes: it mixes scripts, or all its letters look Latin."""
    word = found[0]
    letters = [letter for letter in word if letter.isalpha()]
    if any(letter.isascii() for letter in letters) or all(letter in _LIKE_LETTERS for letter in letters):
        return _ODD.sub(
            lambda one: _escaped(one) if one[0] in _LIKE_LETTERS or _script(one[0]) in _DATA["scripts"] else one[0],
            word,
        )
    return word


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _odd(found: re.Match[str]) -> str:
    """A character, or its escape."""
    one = found[0]
    before = found.string[found.start() - 1 : found.start()]
    stands_alone = (
        unicodedata.combining(one) and before.isascii() and len(unicodedata.normalize("NFC", before + one)) > 1
    )
    hidden = one in _LIKE_MARKS or one in _BLANK or not one.isprintable() or "\ufe00" <= one <= "\ufe0f"
    if hidden or stands_alone or "\U000e0100" <= one <= "\U000e01ef" or unicodedata.normalize("NFKC", one).isascii():
        return _escaped(found)
    return one
