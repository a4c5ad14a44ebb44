"""The way out of a mistake that a parser found, from its message and the text at its place."""

from __future__ import annotations

import re

_HINTS = (
    ("", "^[^#\"']*[“”‘’]", "use straight quotes"),
    ("Cannot declare .* twice", "", "give one of the two tables another name"),
    ("Cannot overwrite", "", "this key was given before: keep one"),
    (
        "Invalid value|Expecting value",
        r"(?<![\w.\"'])(True|False|None|TRUE|FALSE)\b",
        "write true or false, in small letters",
    ),
    ("Invalid value", r"=\s*([A-Za-z_][\w .:/-]*?)\s*$", 'text needs quotes: "{}"'),
    ("Invalid hex|Unescaped", "", "in \"...\" a backslash begins an escape: put the text in '...'"),
    ("Expected '=' after", ":", "write KEY = VALUE"),
    (r"character '\\n'|Expected \"'|Unterminated", "", "a quote is missing at the end of the text"),
    (r"'\\t'", "", "indent with spaces, and not with tabs"),
    (
        "<block end>|mapping values",
        "",
        "the keys of one table begin in the same column, and a text with a colon needs quotes",
    ),
    ("Expecting|Extra data", r"^\s*(//|/\*|#)", "JSON has no comments: leave it out, or name the file .jsonc"),
    ("Expecting property|Illegal trailing|Expecting value", r"(^\s*|,\s*)[}\]]", "leave out the last comma"),
    ("Expecting", "'", "put text in \"...\", and not in '...'"),
)
"""For each typical mistake: patterns of the message and of the line, and the way out."""


def hint_of(message: str, text: str, line: int) -> str:
    """The way out of a mistake in this line, which counts from 1; empty without a guess."""
    shown = (text.splitlines()[line - 1 :] or [""])[0]
    for told, looks, hint in _HINTS:
        found = re.search(looks, shown)
        if found is not None and re.search(told, message):
            return hint.format(*found.groups())
    return ""
