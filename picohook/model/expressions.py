"""Regular expressions whose work grows only linearly with the text, because the model supplies the texts.

The engine is that of pydantic, Rust's `regex`: it never backtracks. It has no look-around and no references to groups. An
expression that cannot be read, or that would take too long for a text, matches: so the hook is asked.
"""

import re
from collections.abc import Mapping
from fnmatch import translate
from typing import NamedTuple

from pydantic_core import SchemaError, SchemaValidator
from pydantic_core.core_schema import str_schema

MOST_WORK = 2_000_000
"""The most bytes of a text times states of an expression: about 50 ms."""
LONGEST_PATTERN = 10_000
"""The most characters of an expression."""
MOST_RANGES = 20
"""The most ranges of an expression that ignores case; each may take 2.5 ms."""
ADVICE = "write it without look-around and references, or write names: a|b"

_CLASS = r"(?:\\.|[^\]\\])*\]?"
_OTHERS = r"|\\.|\(\?(?:<[=!]|P?<|[=!:>#]|[a-zA-Z-]*)|\{(?P<least>\d*)(?:,(?P<most>\d*))?\}|[*+?]\+|."  # with groups and counts
_TOKEN = re.compile(rf"\[\^?\]?{_CLASS}{_OTHERS}", re.DOTALL)
_WITHOUT_CASE = re.compile(r"\(\?[a-zA-Z-]*i")
_IN_CLASS = re.compile(r"\\.-?|--|.", re.DOTALL)
_GLOB = re.compile(r"\[!?\]?[^\]]*\]|\*+|.", re.DOTALL)


class Language(NamedTuple):
    """The words of another language's expressions in place of the engine's."""

    words: Mapping[str, str]
    """The engine's words for those of the language. A word that means something else in a class has a `]` behind it there."""
    lacks: re.Pattern[str] = re.compile(r"(?!)")
    """The words of the engine that the language does not have."""
    token: re.Pattern[str] = _TOKEN


EMPTY_CLASSES = re.compile(rf"\[\^?{_CLASS}{_OTHERS}", re.DOTALL)
"""The token of a language in which `[]` is a whole class."""
PYTHON = Language({r"\Z": r"\z", r"\<": "<", r"\>": ">", r"\b]": r"\x08", "{,": "{0,"})


class Expression:
    """An expression in the words of a language; without one, in the engine's own."""

    def __init__(self, pattern: str, language: Language | None = None, *, whole: bool = False) -> None:
        """With `whole`, the expression has to match the whole text. Never raises."""
        self.problem = ""
        """The reason why the engine cannot read it; empty if it can."""
        self._size = 0
        try:
            if len(pattern) > LONGEST_PATTERN:
                raise ValueError(f"it has more than {LONGEST_PATTERN} characters")  # all problems are taken alike
            if pattern.count("-") > MOST_RANGES and _WITHOUT_CASE.search(pattern):
                raise ValueError("it ignores the case of too many ranges")  # as above
            pattern = pattern if language is None else _translated(pattern, language)
            pattern = f"^(?:{pattern})$" if whole else pattern
            self._engine = SchemaValidator(str_schema(pattern=pattern, regex_engine="rust-regex"))
            self._size = _size(pattern)
        except (ValueError, SchemaError) as error:
            self.problem = str(error).rpartition("error: ")[2].rpartition("SchemaError: ")[2].strip()

    def matches(self, text: str) -> bool:
        """Whether the expression matches. True, too, if it cannot be read, or would take too long for this text."""
        size = len(text)
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()  # the engine takes no half of a surrogate pair
            size *= 4
        return bool(self.problem) or self._size * size > MOST_WORK or self._engine.isinstance_python(text)


def globs(patterns: str) -> Expression:
    """Globs with a bar between them, one of which has to match the whole text."""
    made = (
        "".join(".*" if part[0] == "*" else translate(part)[4:-3] for part in _GLOB.findall(glob.strip()))
        for glob in patterns[: LONGEST_PATTERN + 1].split("|")
    )
    return Expression(f"(?s:{'|'.join(made)})".replace("(?!)", r"[^\s\S]"), PYTHON, whole=True)


def _size(pattern: str) -> int:
    """About how many states the expression has. Raises `ValueError` where that cannot be told."""
    sizes, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if text.startswith("(?") and "x" in text:
            raise ValueError("the flag x is not supported")
        if text[0] == "(":
            sizes.append(0)
        elif text == ")":
            last = sizes.pop() + 1
            sizes[-1] += last
        elif token["least"]:
            more = last * max(int(token["least"]), int(token["most"] or 0))
            sizes[-1], last = sizes[-1] + more, last + more
        else:
            last = 1
            sizes[-1] += last
    return sizes[0]


def _translated(pattern: str, language: Language) -> str:
    """The expression in the engine's words. Raises `ValueError` for a word that the language does not have."""
    made, words = [], language.words
    for token in language.token.finditer(pattern):
        text = token[0]
        if language.lacks.match(text):
            raise ValueError(f"{text} is not in the language of this expression")
        if text[0] == "[" and text not in words:
            begins = 2 if text.startswith("[^") else 1
            text = text[:begins] + _IN_CLASS.sub(lambda found: _in_class(found[0], words), text[begins:-1]) + text[-1]
        elif text[0] == "{" and not token["least"]:
            head = "{," if text.startswith("{,") else "{"
            text = words.get(head, "\\" + head) + text[len(head) :]
        made.append(words.get(text, text))
    return "".join(made)


def _in_class(text: str, words: Mapping[str, str]) -> str:
    """A part of a class. The engine gives a meaning to `[`, `&&`, `~~` and `--` in one, other languages do not."""
    if text in {"[", "&", "~"}:
        return "\\" + text
    if text == "--":
        return r"-\-"
    word, dash = text[:2], text[2:]
    if word[0] != "\\":
        return text
    return words.get(f"{word}]", words.get(word, word)) + ("\\-" if dash and word[1] in "dDwWsS" else dash)
