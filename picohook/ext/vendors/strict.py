"""Makes every dialect stricter: a gate denies if picohook cannot read its answer, and the vendor may.

In strict, a gate that refuses in another agent's words fails. The vendor overlooks such a refusal. As the vendor, too, a gate
denies if its model answers neither yes nor no: a refusal in other words is never a yes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import HookReplyError
from .contract import HandlerAnswer
from .output import UnreadableError, object_in

if TYPE_CHECKING:
    from .contract import Failures, HandlerResult, Rule

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
