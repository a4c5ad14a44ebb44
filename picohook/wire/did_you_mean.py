"""Guesses which action or field the author of an answer meant. Standard library only."""

from __future__ import annotations

from itertools import islice

from . import words
from .answer_form import ACTION_FIELDS, lower

TYPE_CHECKING = False  # as in `words`
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from .answer_form import AnswerForm

SURE = 0.75
"""The likeness of two words from which one of them probably stands for the other."""
LONGEST_WORD, NAMES_TRIED = 40, 8
"""The most characters of a word, and the most words of an answer, for which a meaning is guessed. Guessing takes long."""
_NO = {"deny", "denied", "block", "blocked", "reject", "rejected", "refuse", "refused", "forbid", "disallow", "no"}
YES = {
    "allow",
    "allowed",
    "approve",
    "approved",
    "accept",
    "permit",
    "proceed",
    "pass",
    "ok",
    "yes",
    "continue",
    "none",
}
_END = {"stop", "abort", "halt", "cancel"}
_EDIT = {"edit", "update", "replace", "rewrite", "change", "modified", "redact"}
MEANT = {  # names of other systems, and ours
    "args": "arguments",
    "input": "arguments",
    "params": "arguments",
    "parameters": "arguments",
    "tool_input": "arguments",
    "updatedinput": "arguments",
    "name": "tool",
    "tool_name": "tool",
    "toolname": "tool",
    "content": "for_llm",
    "text": "for_llm",
    "output": "for_llm",
    "user_input": "prompt",
    "system": "system_prompt",
    "timeout_ms": "timeout",
}


def action_meant(actions: Collection[str], value: Any) -> str:
    """The action among `actions` that a word probably means; empty without a guess."""
    if not isinstance(value, str) or len(value) > LONGEST_WORD:
        return ""
    word = lower(value.strip())
    if word in actions:
        return str(word)
    if word in _NO:
        return next((action for action in (words.DENY, words.SKIP, words.ABORT_TURN) if action in actions), "")
    if word in YES or word in _EDIT or word in _END:
        action = words.CONTINUE if word in YES else words.MODIFY if word in _EDIT else words.ABORT_TURN
        return action if action in actions else ""
    return nearest(word, sorted(actions), SURE)


def guess_for(form: AnswerForm, name: str, value: Any) -> str:
    """The probable meaning of a field that is not read here, such as `action: deny_tool`; empty without a guess."""
    small = str(lower(name))
    if name in {form.carries, "patch"} and isinstance(value, dict):
        nested = value.get(form.part)
        inner = nested if form.part and isinstance(nested, dict) else value
        guesses = (_field(str(lower(one)), form.editable or ()) for one in islice(inner, NAMES_TRIED))
        return next((f"`{guess}`" for guess in guesses if guess), "")
    action = _action_in(form.actions, small, value)
    if action:
        return f"`action: {action}`"
    wanted = ACTION_FIELDS.get(small, "")
    if wanted in form.actions:
        return f"`action: {wanted}` beside it"
    field = _field(small, form.editable or ())
    if field and form.carries:
        return f"`{form.carries}: {{{field}: ...}}`"
    guess = field or nearest(small, sorted(form.names), SURE)
    return f"`{guess}`" if guess else ""


def _action_in(actions: Collection[str], name: str, value: Any) -> str:
    """The action that a field probably means, by its value or its name: `decision: deny`, `allow: false`; else empty."""
    if isinstance(value, dict):  # as in {"hookSpecificOutput": {"permissionDecision": "deny"}}
        inner = [
            (str(lower(one)), value[one]) for one in islice(value, NAMES_TRIED) if not isinstance(value[one], dict)
        ]
        return next(filter(None, (_action_in(actions, one, meant) for one, meant in inner)), "")
    action = action_meant(actions, value)
    if action or not (name in actions or name in _NO | YES | _END):
        return action
    if value is False:
        name = "deny" if name in YES else "continue"
    return action_meant(actions, name)


def _field(name: str, fields: Collection[str]) -> str:
    """The field that a name probably means; empty without a guess."""
    meant = MEANT.get(name, name)
    return meant if meant in fields else nearest(name, sorted(fields), SURE)


def nearest(word: str, words: Iterable[str], likeness: float = 0.6) -> str:
    """The one of these words that is most like this one; empty if none is as much like it, from 0 to 1, or if it is long."""
    if len(word) > LONGEST_WORD:
        return ""
    import difflib  # for mistakes only

    near = difflib.get_close_matches(word, words, 1, likeness)
    return near[0] if near else ""


def file_meant(path: str) -> str:
    """The name of the file beside this path that is most like its own, escaped; empty without a guess. This reads the disk."""
    import os  # for mistakes only

    from .text import escape

    directory, name = os.path.split(path)
    try:
        return escape(nearest(name, os.listdir(directory or "."), SURE))
    except OSError:
        return ""
