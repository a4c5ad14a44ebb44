"""Checks the fields of a hook's answer: which are the protocol's, in any case of letters, and whether they decide anything.

Standard library only: the host, the conformance kit and the SDK share it.
"""

from __future__ import annotations

from itertools import islice

from . import words
from .answer_form import NOTES, fold_case, lower
from .did_you_mean import NAMES_TRIED, YES, guess_for
from .text import cut, escape

TYPE_CHECKING = False  # as in `words`
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from .answer_form import AnswerForm

SILENT = frozenset({"ok", "version", "hook_result", "reason"})
"""Fields that may stand alone without deciding anything, as may those whose names begin as in `PRIVATE`."""
PRIVATE = ("x_", "_")
SHOWN_OF_NAME = 80
"""The number of bytes of a hook's own names that a message shows."""
_OF_HELLO = frozenset({"name", "capabilities", "max_in_flight"})
"""Fields of an answer to hello, beside `ok: true`."""


def misspelled(form: AnswerForm, answer: dict[str, Any]) -> list[str]:
    """The names that differ from the protocol's only in case; they are read. Raises `ValueError` for a duplicate."""
    plain = fold_case(answer, form.names)
    found = _misspelled(answer, form.names)
    for payload in (plain.get(form.carries), plain.get("patch")):
        if isinstance(payload, dict):
            inner = fold_case(payload, form.outer).get(form.part)
            found += _misspelled(payload, form.outer)
            found += _misspelled(inner, form.editable or ()) if isinstance(inner, dict) else []
    return found


def _misspelled(answer: Mapping[str, Any], names: Collection[str]) -> list[str]:
    by_case = set(map(lower, names))
    return [str(name) for name in answer if name not in names and lower(name) in by_case]


def is_set(value: Any) -> bool:
    """Whether a value is set: Go writes an empty value for an unset field."""
    if isinstance(value, dict):
        return any(map(is_set, value.values()))
    return bool(value)


_KINDS: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def json_type(value: object) -> str:
    """The JSON type of a value, such as `a string`."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def meaningful(answer: Mapping[str, Any]) -> list[str]:
    """The fields that mean something, without those that may stand alone."""
    return [name for name, value in answer.items() if _is_meaningful(answer, str(lower(name)), value)]


def _is_meaningful(answer: Mapping[str, Any], name: str, value: Any) -> bool:
    if name in {"approved", "ok"} and value is False:
        return is_set(answer.get("reason"))  # without a reason it may be the zero value of a Go struct for all stages
    if name in SILENT or name.startswith(PRIVATE):
        return False
    if name in _OF_HELLO and answer.get("ok") is True:
        return False  # the answer to hello, sent at every stage
    return is_set(value) or _is_no(name, value)


def _is_no(name: str, value: Any) -> bool:
    """Whether a field says no, as in `{"allow": false}`, or contains one that does."""
    if isinstance(value, dict):
        return any(_is_no(str(lower(one)), value[one]) for one in value)
    return name in YES - SILENT and isinstance(value, bool | int | float) and not value


def misplaced(result: Any, beside: Mapping[str, Any]) -> str:
    """The reason why an answer with these fields beside its `result` cannot be used; empty if it can."""
    names = meaningful(beside)
    if isinstance(result, dict):
        wrong = {"result", "error"} | ({"action"} - set(map(lower, result)))
        names = [name for name in names if lower(name) in wrong]
    names += [name for name in beside if lower(name) == "approved"]
    if not names:
        return ""
    return f"`{_shown(names[0])}` is beside its `result`, where the host does not read it: put it inside `result`"


def understand(form: AnswerForm, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with the protocol's names. Raises `ValueError` if it has fields that mean something but decide nothing.

    An answer decides if it has an action, or a field that means something without one. A `modify` must contain an editable
    field. Types are not checked here.
    """
    answer = fold_case(answer, form.names)
    if "action" not in answer or answer["action"] == words.MODIFY:
        _require_effect(form, answer)
    return answer


def _require_effect(form: AnswerForm, answer: Mapping[str, Any]) -> None:
    """Raises `ValueError` for a `modify` that edits nothing, and for an answer that means something and decides nothing."""
    modifies, carried, patch = "action" in answer, form.carried(answer), form.patch(answer)
    for payload, meant in ((carried, is_set(carried)), (patch, patch)):
        if (payload is not None if modifies else meant) and (not isinstance(payload, dict) or form.known(payload)):
            return
    if modifies and patch == {}:
        return  # a patch without changes
    edits = ("patch", form.carries) if modifies else ("patch",)  # in a patch, a null means something
    names = [name for name in edits if name and answer.get(name)]
    names += [name for name in meaningful(answer) if name not in {"action", *NOTES, *names}]
    if any(is_set(answer.get(name)) for name in NOTES) and not (names and modifies):
        return
    if modifies:
        wrong = f"`modify` changes nothing: {_mistaken(form, answer, names)}" if names else ""
        raise ValueError(wrong or f"`modify` came without {_carriers(form)}")
    if names:
        raise ValueError(f"the answer has no `action`, and {_mistaken(form, answer, names)}")


def _mistaken(form: AnswerForm, answer: Mapping[str, Any], names: list[str]) -> str:
    """A message that names the wrong field and what its author probably meant."""
    guesses = ((name, guess_for(form, name, answer[name])) for name in names[:NAMES_TRIED])
    name, guess = next((one for one in guesses if one[1]), (names[0], ""))
    if name and name in {form.carries, "patch"}:
        inner = ", ".join(f"`{one}`" for one in islice(answer[name], NAMES_TRIED))
        wrong = f"{form.stage} cannot change {_shown(inner)}, which `{name}` has"
    else:
        wrong = f"`{_shown(name)}` decides nothing at {form.stage}"
    if guess:
        return f"{wrong}: did you mean {guess}?"
    return f"{wrong}; an edit comes in {_carriers(form)}, and the actions are {', '.join(sorted(form.actions))}"


def _shown(name: object) -> str:
    return escape(cut(str(name), SHOWN_OF_NAME))


def _carriers(form: AnswerForm) -> str:
    names = [form.carries] if form.carries else sorted(form.editable or ())
    return " or ".join(f"`{name}`" for name in (*names, "patch"))
