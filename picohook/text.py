"""Text that came from a hook, made fit to be shown: cut to a limit, and without a control character that acts."""

from __future__ import annotations

import re

# C0 and C1 controls, line and paragraph separators, and the marks that turn the direction of text around.
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape(text: str) -> str:
    """The text with every character that could act on a terminal or a log written out."""
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def cut(text: str, limit: int) -> str:
    """The text, at most `limit` bytes of UTF-8 long."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", "surrogatepass")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


def show(data: bytes, limit: int = 200) -> str:
    """Bytes that may be anything, as one line to read."""
    text = escape(data[:limit].decode("utf-8", "backslashreplace"))
    return f"{text}… ({len(data)} bytes)" if len(data) > limit else text
