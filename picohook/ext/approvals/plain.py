"""Text of a call as a person sees it: what is invisible, acts on a screen, or looks like something else is an escape."""

from __future__ import annotations

import re
import unicodedata

from ...wire.text import escape

_WORD = re.compile(r"\w*[^\W\x00-\x7f]\w*")
_ODD = re.compile(r"[^\x00-\x7f]")
_DASH = re.compile(r"(?<!\S)[\u2010-\u2015\u2212\ufe58](?=\S)")
"""A dash where an option begins."""
_LIKE_MARKS = frozenset(
    "\u01c0\u01c3\u02b9\u02bb\u02bc\u02c8\u05f3\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2032\u2033\u2035"
)
_LIKE_MARKS |= frozenset(
    "\u2044\u2215\u2216\u2217\u2223\u2236\u223c\u29f5\u29f8\u29f9\ua789\ua4f8\ua4fa\u2768\u2769\u0294\u0589\u05c3"
)
"""Characters that look like quotes, slashes and other marks that mean something to a shell."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SCRIPTS = frozenset({"GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "GEORGIAN", "CANADIAN", "RUNIC"})
"""Scripts with letters that look like Latin ones."""
_LIKE_LETTERS = frozenset(
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b1\u03b3\u03b9\u03ba\u03bd\u03bf\u03c1"
    "\u03c5\u03c7\u0405\u0406\u0408\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u042c\u0430\u0433\u0435"
    "\u043a\u043e\u043f\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0461\u0475\u04ae\u04af\u04bb\u04cf\u0501\u051b\u051d\u0555\u0561"
    "\u0563\u0566\u0570\u0578\u057d\u0581\u0582\u0585\u0131\u0251\u0261\u0269\u026a\u029f\u1d04\u1d0f\u1d1c\u1d20\u1d21\u1d22"
)
"""Letters that look like Latin ones: Greek, Cyrillic, Armenian, and those of phonetics."""


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
            lambda one: _escaped(one) if one[0] in _LIKE_LETTERS or _script(one[0]) in _SCRIPTS else one[0], word
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
