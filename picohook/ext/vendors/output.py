"""Reads what handlers print, for all dialects: JSON or text.

A gate denies if picohook cannot read its answer, and the vendor may. In strict, a gate that refuses in another agent's words
fails. The vendor overlooks such a refusal. As the vendor, too, a gate denies if its model answers neither yes nor no: a refusal
in other words is never a yes.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ...errors import HookCrashedError, HookReplyError
from ...protocol.codec import decode_value, load
from ...wire.platforms import how_it_ended
from ...wire.text import last_words, show
from .contract import Failures, HandlerAnswer, HandlerResult, Rule

SHOWN_OF_STDERR = 400
"""The most characters of a handler's stderr in an error."""
BLANK = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""The characters that vendors ignore around an answer."""
BOM = "\ufeff"
"""Another one: JavaScript ignores it, and Rust does not."""
_REFUSALS: dict[str, tuple[Any, ...]] = {
    "permissiondecision": ("deny", "ask", "defer"),
    "permission": ("deny", "ask"),
    "decision": ("deny", "block", "ask"),
    "behavior": ("deny",),
    "action": ("block", "deny", "deny_tool", "abort_turn", "hard_abort", "pause"),
    "continue": (False,),
    "cancel": (True,),
    "ok": (False,),
}
"""The fields in which agents look for a decision, each with the values that deny a call or ask a person.

A script may write them in other letters, too: as `permission_decision`, or `Deny`.
"""


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
    """Raises `HookReplyError` for text that has an object's key among these: vendors overlook an answer behind other text.

    It also raises for a text in another encoding than UTF-8.
    """
    if "\0" in text or ("{" in text and any(f'"{name}"' in text for name in known)):
        raise HookReplyError("its answer is behind other text, which hides it: it has to print the JSON object alone")


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
    why = {126: ": the program cannot be run", 127: ": there is no such program"}.get(result.exit_code, "")
    stderr = f"; it said: {last_words(result.stderr, SHOWN_OF_STDERR)}" if result.stderr.strip() else ""
    return HookCrashedError(
        f"it {how_it_ended(result.exit_code)}{why}{stderr}", exit_code=result.exit_code, stderr_tail=result.stderr
    )


def object_in(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is; None for any other text."""
    try:
        printed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return printed if isinstance(printed, dict) else None


def checked(title: str, rule: Rule, result: HandlerResult, failures: Failures, answer: HandlerAnswer) -> HandlerAnswer:
    """Returns the answer of a gate; a failure or a denial in its place if the answer may be a refusal."""
    of_model = rule.kind == "prompt"
    decides = answer.verdict not in {"", "allow"} or answer.ends is not None or answer.failure is not None
    if not decides and (of_model or failures == "strict"):
        try:
            _require_own_words(title, result.stdout if result.stdout.strip() else result.stderr)
        except HookReplyError as error:
            answer = HandlerAnswer(failure=error)
    unread = isinstance(answer.failure, UnreadableError) or (of_model and isinstance(answer.failure, HookReplyError))
    if unread and failures == "vendor":
        return replace(answer, verdict="deny", reason=str(answer.failure))
    return answer


def _require_own_words(title: str, text: str) -> None:
    text = text.strip().removeprefix("\ufeff")
    # Some agents ignore the lines before the last one.
    found = next(filter(None, map(object_in, (text, *text.splitlines()[-1:]))), {})
    printed = _table({"": found}, "")
    inner = _table(printed, "hookspecificoutput")
    tables = (printed, inner, _table(printed, "decision"), _table(inner, "decision"))
    if any(
        _plain(printed[name]) in values for printed in tables for name, values in _REFUSALS.items() if name in printed
    ):
        raise HookReplyError(f"it refuses in another agent's words, which {title} does not read")


def _table(printed: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns the object at a key of another one, with plain names."""
    value = printed.get(name)
    return {_plain(key).replace("_", ""): inner for key, inner in value.items()} if isinstance(value, dict) else {}


def _plain(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value
