"""What an answer says: which names in it are the protocol's, whether it decides, and what was probably meant if it does not.

Standard library only: the host, the conformance kit and the SDK for hook authors share it.
"""

from __future__ import annotations

from . import words
from .text import cut, escape

TYPE_CHECKING = False  # as in `wire`
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Set as AbstractSet
    from typing import Any

NOTES = ("system_message", "additional_context", "inject_messages")
"""What an answer can add beside its decision."""
SILENT = frozenset({"ok", "version", "hook_result", "reason"})
"""Names that may stand alone and decide nothing. So may those that begin as in `PRIVATE`."""
PRIVATE = ("x_", "_")
SHOWN = 80
"""Bytes of a hook's own names that a message shows."""
_OF_HELLO = frozenset({"name", "capabilities", "max_in_flight"})
"""Names in an answer to hello, beside `ok: true`."""
_GOES_WITH = {"feedback": words.RETRY, "result": words.RESPOND}
"""Fields that mean something beside one action alone."""


class Form:
    """What an answer at one stage can hold."""

    __slots__ = ("actions", "carries", "editable", "names", "outer", "part", "stage")

    def __init__(
        self,
        stage: str,
        *,
        carries: str = "",
        part: str = "",
        editable: Iterable[str] | None = (),
        actions: Iterable[str] = (),
    ) -> None:
        self.stage = stage
        self.carries = carries
        """The field that carries the edited payload; empty where the edited fields stand in the answer itself."""
        self.part = part
        """The field of the payload that `carries` means, if it means one alone."""
        self.editable = None if editable is None else frozenset(editable)
        """The names in an edited payload; None where any name can be there."""
        self.actions = frozenset(actions)
        self.outer = (self.editable or frozenset()) | ({part} if part else set())
        """The names in an edited payload as a whole."""
        own = {carries} if carries else set(self.editable or ())
        own |= {field for field, action in _GOES_WITH.items() if action in self.actions}
        self.names = frozenset({"action", "reason", "patch", *NOTES, *own})
        """The names in an answer that are read."""

    def carried(self, answer: Mapping[str, Any]) -> Any:
        """The edited payload of an answer, with the protocol's names in it; None if there is none.

        Raises `ValueError` for a name that is there twice.
        """
        if not self.carries:
            return {name: answer[name] for name in self.editable or () if answer.get(name) is not None} or None
        return self._payload(answer.get(self.carries))

    def patch(self, answer: Mapping[str, Any]) -> Any:
        """The merge patch of an answer, likewise."""
        return self._payload(answer.get("patch"))

    def _payload(self, given: Any) -> Any:
        """An edited payload, or the part of it that can be edited, whether it comes alone or inside all of the params."""
        if not isinstance(given, dict):
            return given
        plain = folded(given, self.outer)
        inner = plain.get(self.part) if self.part else None
        if isinstance(inner, dict):
            return {self.part: inner if self.editable is None else folded(inner, self.editable)}
        return given if self.editable is None else plain

    def known(self, payload: Mapping[str, Any]) -> bool:
        """Whether an edited payload has a field that can be edited."""
        nested = payload.get(self.part) if self.part else None
        inner = nested if isinstance(nested, dict) else payload
        return self.editable is None or any(name in self.editable for name in inner)


def folded(given: dict[str, Any], names: AbstractSet[str]) -> dict[str, Any]:
    """The same with each name that differs from one of these only in the case of ASCII letters written like it.

    Raises `ValueError` if one of these is there twice.
    """
    if given.keys() <= names:
        return given  # as nearly always
    by_case = {_lower(name): name for name in names}
    found: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for name, value in given.items():
        known = name if name in names else by_case.get(_lower(name), name)
        if known in found:
            raise ValueError(f"`{known}` is there twice: as `{spelled[known]}` and as `{name}`")
        found[known] = value
        spelled[known] = name
    return found


def _lower(name: Any) -> Any:
    """In small letters, as far as they are ASCII: Go matches names so, and no other letter is in the protocol's."""
    return name.lower() if isinstance(name, str) and name.isascii() else name


def respelled(form: Form, answer: dict[str, Any]) -> list[str]:
    """The names that are taken for the protocol's, and are not written like them. Raises `ValueError` for two of one."""
    plain = folded(answer, form.names)
    found = _respelled(answer, form.names)
    for payload in (plain.get(form.carries), plain.get("patch")):
        if isinstance(payload, dict):
            inner = folded(payload, form.outer).get(form.part)
            found += _respelled(payload, form.outer)
            found += _respelled(inner, form.editable or ()) if isinstance(inner, dict) else []
    return found


def _respelled(given: Mapping[str, Any], names: Collection[str]) -> list[str]:
    by_case = set(map(_lower, names))
    return [str(name) for name in given if name not in names and _lower(name) in by_case]


def says(value: Any) -> bool:
    """Whether a value is more than what Go writes for a field that was never set."""
    if isinstance(value, dict):
        return any(map(says, value.values()))
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


def kind_of(value: object) -> str:
    """What JSON calls a value of this kind: `a string`."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def telling(answer: Mapping[str, Any]) -> list[str]:
    """The fields that say something, those that may stand alone left out."""
    return [name for name, value in answer.items() if _tells(answer, str(_lower(name)), value)]


def _tells(answer: Mapping[str, Any], name: str, value: Any) -> bool:
    if name in {"approved", "ok"} and value is False:
        return says(answer.get("reason"))  # without a reason it is Go's zero value, of a struct that serves all stages
    if name in SILENT or name.startswith(PRIVATE):
        return False
    if name in _OF_HELLO and answer.get("ok") is True:
        return False  # the answer to hello, given to every question
    return says(value) or _is_no(name, value)


def _is_no(name: str, value: Any) -> bool:
    """Whether a field says no, as in `{"allow": false}`, or holds one that does."""
    if isinstance(value, dict):
        return any(_is_no(str(_lower(one)), value[one]) for one in value)
    return name in _YES - SILENT and isinstance(value, bool | int | float) and not value


def outside(result: Any, beside: Mapping[str, Any]) -> str:
    """Why an answer with these fields beside its `result` cannot be used: they say what belongs inside. Empty if it can."""
    said = telling(beside)
    if isinstance(result, dict):
        wrong = {"result", "error"} | ({"action"} - set(map(_lower, result)))
        said = [name for name in said if _lower(name) in wrong]
    said += [name for name in beside if _lower(name) == "approved"]
    if not said:
        return ""
    return f"`{_shown(said[0])}` is beside its `result`, where nothing is read: what it decides belongs inside `result`"


def understood(form: Form, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with the protocol's own names. Raises `ValueError` for one that says something and decides nothing.

    It decides if it has an action, whatever that is, or a field that means something without one. A `modify` has to carry
    a field that can be edited. What is of the wrong type is left for whoever reads it.
    """
    answer = folded(answer, form.names)
    if "action" not in answer:
        _require_decision(form, answer)
    elif answer["action"] == words.MODIFY:
        _require_edit(form, answer)
    return answer


def _require_decision(form: Form, answer: Mapping[str, Any]) -> None:
    said = telling(answer) or [name for name in ("patch",) if answer.get(name)]  # a null in a patch says something
    if not said or any(name in said for name in NOTES):
        return
    carried, patch = form.carried(answer), form.patch(answer)
    for payload, meant in ((carried, says(carried)), (patch, patch)):
        if meant and (not isinstance(payload, dict) or form.known(payload)):
            return
    raise ValueError(f"the answer has no `action`, and {_mistaken(form, answer, said)}")


def _require_edit(form: Form, answer: Mapping[str, Any]) -> None:
    if any(isinstance(one := answer.get(name), dict) and form.known(one) for name in (form.carries, "patch")):
        return  # as nearly always
    payloads = [one for one in (form.carried(answer), form.patch(answer)) if one is not None]
    if any(not isinstance(one, dict) or form.known(one) for one in payloads) or answer.get("patch") == {}:
        return  # an empty patch is a whole one, for no change
    carried = [name for name in (form.carries, "patch") if answer.get(name)]
    said = carried + [name for name in telling(answer) if name not in {"action", *NOTES, *carried}]
    if not said:
        if any(says(answer.get(name)) for name in NOTES):
            return
        raise ValueError(f"`modify` came without {_carriers(form)}")
    raise ValueError(f"`modify` changes nothing: {_mistaken(form, answer, said)}")


def _mistaken(form: Form, answer: Mapping[str, Any], said: list[str]) -> str:
    """Which field it is about, and what was probably meant by it."""
    guesses = ((name, _meant(form, name, answer[name])) for name in said)
    name, guess = next((one for one in guesses if one[1]), (said[0], ""))
    if name in {form.carries, "patch"}:
        inner = ", ".join(f"`{one}`" for one in answer[name])
        wrong = f"{form.stage} cannot change {_shown(inner)}, which `{name}` has"
    else:
        wrong = f"`{_shown(name)}` decides nothing at {form.stage}"
    if guess:
        return f"{wrong}: did you mean {guess}?"
    return f"{wrong}; an edit comes in {_carriers(form)}, and the actions are {', '.join(sorted(form.actions))}"


def _shown(name: object) -> str:
    return escape(cut(str(name), SHOWN))


def _carriers(form: Form) -> str:
    names = [form.carries] if form.carries else sorted(form.editable or ())
    return " or ".join(f"`{name}`" for name in (*names, "patch"))


# What was probably meant.

_NO = {"deny", "denied", "block", "blocked", "reject", "rejected", "refuse", "refused", "forbid", "disallow", "no"}
_YES = {
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
_ARE = {
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
}


def action_meant(actions: Collection[str], value: Any) -> str:
    """The action of a stage that a word probably means; empty where there is none."""
    if not isinstance(value, str):
        return ""
    word = _lower(value.strip())
    if word in actions:
        return str(word)
    if word in _NO:
        return next((action for action in (words.DENY, words.SKIP, words.ABORT_TURN) if action in actions), "")
    if word in _YES or word in _EDIT or word in _END:
        action = words.CONTINUE if word in _YES else words.MODIFY if word in _EDIT else words.ABORT_TURN
        return action if action in actions else ""
    return _close(word, actions)


def _meant(form: Form, name: str, value: Any) -> str:
    lower = str(_lower(name))
    if name in {form.carries, "patch"} and isinstance(value, dict):
        nested = value.get(form.part)
        inner = nested if form.part and isinstance(nested, dict) else value
        guesses = (_field(str(_lower(one)), form.editable or ()) for one in inner)
        return next((f"`{guess}`" for guess in guesses if guess), "")
    action = _action_in(form.actions, lower, value)
    if action:
        return f"`action: {action}`"
    wanted = _GOES_WITH.get(lower, "")
    if wanted in form.actions:
        return f"`action: {wanted}` beside it"
    field = _field(lower, form.editable or ())
    if field and form.carries:
        return f"`{form.carries}: {{{field}: ...}}`"
    guess = field or _close(lower, form.names)
    return f"`{guess}`" if guess else ""


def _action_in(actions: Collection[str], name: str, value: Any) -> str:
    """The action that a field probably means, by its value or by its name: `decision: deny`, `allow: false`."""
    if isinstance(value, dict):  # as in {"hookSpecificOutput": {"permissionDecision": "deny"}}
        return next(filter(None, (_action_in(actions, str(_lower(one)), value[one]) for one in value)), "")
    action = action_meant(actions, value)
    if action or not (name in actions or name in _NO | _YES | _END):
        return action
    if value is False:
        name = "deny" if name in _YES else "continue"
    return action_meant(actions, name)


def _field(name: str, fields: Collection[str]) -> str:
    """The field that a name probably means."""
    meant = _ARE.get(name, name)
    return meant if meant in fields else _close(name, fields)


def _close(word: str, words: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - for mistakes only

    near = difflib.get_close_matches(word, sorted(words), 1, 0.75)
    return near[0] if near else ""
