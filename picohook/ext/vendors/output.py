"""Reads what handlers print, for all dialects: JSON or text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...errors import HookCrashedError, HookReplyError
from ...protocol.codec import decode_value, load
from ...wire.text import last_words, show

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .contract import HandlerResult

SHOWN_OF_STDERR = 400
"""The most characters of a handler's stderr in an error."""
MOST_BRACES, MOST_READ = 1000, 1 << 20
"""The most places of a text at which an object is looked for, and the most characters that are read there in all."""
BLANK = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""The characters that vendors ignore around an answer."""
BOM = "\ufeff"
"""Another one: JavaScript ignores it, and Rust does not."""


class UnreadableError(HookReplyError):
    """An answer that its vendor may read, and picohook cannot. It counts as a denial."""


def read_object(text: str, *, strict: bool, blank: str = BLANK + BOM) -> dict[str, Any] | None:
    """The JSON object in the text; None for plain text. Raises `HookReplyError` for broken JSON that begins as an object.

    Vendors take an object that has a key twice. In strict, such an object is broken JSON.
    """
    text = text.strip(BLANK + BOM if strict else blank)
    if not text.startswith("{"):
        return None
    try:
        value = decode_value(text.encode()) if strict else loads(text)
    except ValueError as error:
        raise HookReplyError(f"its output is not JSON: {error}: {show(text.encode(), 80)}") from None
    return value if isinstance(value, dict) else None


def loads(text: str) -> Any:
    """Decodes JSON as vendors do. Raises `ValueError` for other text, and `UnreadableError` if it is too much to read."""
    try:
        return load(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise UnreadableError(
            f"its output cannot be read: {error}: {show(text.encode(errors='replace'), 80)}"
        ) from None


def _refuse_constant(constant: str) -> Any:
    """For `json.loads`: raises `JSONDecodeError` for NaN and Infinity."""
    raise json.JSONDecodeError("this is not JSON", constant, 0)


def require_no_hidden_answer(text: str, known: Collection[str]) -> None:
    """Raises `HookReplyError` if an object with one of these keys comes after other text, where vendors overlook it.

    It also raises for a text with more braces than a person writes, and for one in another encoding than UTF-8.
    """
    if _has_object(text, known):
        raise HookReplyError("its answer is behind other text, which hides it: it has to print the JSON object alone")


def _has_object(text: str, known: Collection[str]) -> bool:
    if text.count("{") > MOST_BRACES or "\0" in text:
        return True
    start, read = text.find("{"), 0
    while start >= 0:
        try:
            value, end = json.JSONDecoder().raw_decode(text, start)
        except json.JSONDecodeError as error:
            value, end = None, error.pos
        except (ValueError, RecursionError):
            value, end = None, len(text)
        read += end - start
        if read > MOST_READ:
            return True
        if isinstance(value, dict) and not value.keys().isdisjoint(known):
            return True
        start = text.find("{", start + 1)
    return False


def read_ok(text: str) -> tuple[bool, dict[str, Any]]:
    """Whether a model answered `{"ok": true}`, and its whole answer. Raises `HookReplyError` if it has no `ok`."""
    answer = read_object(text, strict=True) or {}
    good = flag(answer, "ok")
    if good is None:
        raise HookReplyError('the model did not answer {"ok": true} or {"ok": false, "reason": "..."}')
    return good, answer


def text_field(answer: Mapping[str, Any], name: str) -> str:
    """A text in an answer; empty if it is absent. Raises `HookReplyError` for another value."""
    return _field(answer, name, str, "a string") or ""


def flag(answer: Mapping[str, Any], name: str) -> bool | None:
    """A boolean in an answer. Raises `HookReplyError` for another value."""
    value: bool | None = _field(answer, name, bool, "true or false")
    return value


def table(answer: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """An object in an answer. Raises `HookReplyError` for another value."""
    value: dict[str, Any] | None = _field(answer, name, dict, "an object")
    return value


def choice(answer: Mapping[str, Any], name: str, choices: Collection[str]) -> str:
    """One of some words in an answer; empty if it is absent. Raises `HookReplyError` for another value."""
    value = text_field(answer, name)
    if value not in choices and answer.get(name) is not None:
        raise HookReplyError(f"`{name}` is {show(value.encode(), 40)}, and not one of {', '.join(sorted(choices))}")
    return value


def _field(answer: Mapping[str, Any], name: str, kind: type, expected: str) -> Any:
    value = answer.get(name)
    if value is not None and not isinstance(value, kind):
        raise HookReplyError(f"`{name}` is not {expected}")
    return value


def ended(result: HandlerResult) -> HookCrashedError:
    """The error of a process that ended with another code than 0."""
    how = f"exited with code {result.exit_code}" if result.exit_code > 0 else f"was ended by signal {-result.exit_code}"
    why = {126: ": the program cannot be run", 127: ": there is no such program"}.get(result.exit_code, "")
    stderr = f"; it said: {last_words(result.stderr, SHOWN_OF_STDERR)}" if result.stderr.strip() else ""
    return HookCrashedError(f"it {how}{why}{stderr}", exit_code=result.exit_code, stderr_tail=result.stderr)


def object_in(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is; None for any other text."""
    try:
        printed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return printed if isinstance(printed, dict) else None
