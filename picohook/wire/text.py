"""Makes text from a hook safe to show: cuts it to a limit, and escapes control characters."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

MAX_CAUSE = 400
"""The number of bytes of an exception's own text that are shown."""

# C0 and C1 controls, line and paragraph separators, marks that reverse the direction of text, and lone surrogates.
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape(text: str) -> str:
    """The text with every character escaped that could control a terminal or break a log line."""
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def cut(text: str, limit: int) -> str:
    """The text, at most `limit` bytes of UTF-8 long."""
    if len(text) * 4 <= limit:
        return text
    data = text[: limit + 1].encode("utf-8", "surrogatepass")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


def shortened(text: str, limit: int) -> str:
    """The same, with a mark where it was cut."""
    short = cut(text, limit)
    return short if short == text else short + "…"


def show(data: bytes, limit: int = 200) -> str:
    """Any bytes as one readable line, cut to `limit` bytes."""
    text = escape(data[:limit].decode("utf-8", "backslashreplace"))
    return f"{text}… ({len(data)} bytes)" if len(data) > limit else text


def last_words(tail: str, limit: int) -> str:
    """The last lines that fit into `limit` characters, as one line. A Python traceback is cut to its error and place.

    If the last line alone is longer, its end is returned.
    """
    lines = [line for line in tail.splitlines() if line.strip()]
    begins = next((at for at in reversed(range(len(lines))) if lines[at].startswith(_TRACEBACK)), len(lines))
    if begins == len(lines):  # a syntax error is printed without the "Traceback" line
        begins = next((at for at in reversed(range(len(lines))) if re.match(_PLACE, lines[at])), begins)
    places = [found for line in lines[begins:] if (found := re.match(_PLACE, line))]
    raised = next((line for line in reversed(lines[begins + 1 :]) if not line.startswith(" ")), "")
    if places and raised:
        _, file, line = next((one for one in reversed(places) if not _is_library(one[1])), places[-1]).group(0, 1, 2)
        lines[begins:] = [f"{raised} ({os.path.basename(file)}:{line})"]
    text = " | ".join(lines)
    if len(text) > limit:
        text = text[-limit:]
        text = text.partition(" | ")[2] or text
    return text


_TRACEBACK = "Traceback (most recent call last)"
_PLACE = r'  File "([^"]*)", line (\d+)'  # compiled when it is used, which is rarely


def explain(error: BaseException) -> str:
    """An exception as `TypeError: its text (file.py:12)`, safe to show. The place is the innermost in its author's code."""
    try:
        text = next((line for line in map(str.strip, str(error).splitlines()) if line), "")
    except BaseException:  # the `__str__` of the author's own class may fail too, or call `exit`
        text = ""
    kind = type(error).__name__
    at = _place(error)
    return escape(f"{kind}: {cut(text, MAX_CAUSE)}" if text else kind) + (f" ({escape(at)})" if at else "")


def _place(error: BaseException) -> str:
    """The innermost line of the author's own code, as `file.py:12` without a directory; empty if unknown."""
    places: list[tuple[CodeType, int]] = []
    trace = error.__traceback__
    while trace is not None:
        places.append((trace.tb_frame.f_code, trace.tb_lineno))
        trace = trace.tb_next
    for code, line in reversed(places):
        if not _is_library(code.co_filename):
            return f"{os.path.basename(code.co_filename)}:{line}"
    return ""


def _is_library(file: str) -> bool:
    return file.startswith(("<frozen ", *_LIBRARIES)) or re.search(_INSTALLED, file) is not None


_INSTALLED = r"[/\\](site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]"
# The last one is how modules name their files that were compiled.
_LIBRARIES = (os.path.dirname(os.path.dirname(__file__)) + os.sep, os.path.dirname(os.__file__) + os.sep, "picohook/")
