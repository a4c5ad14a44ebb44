"""Applies a hook's edit to a payload: replaced fields and merge patches."""

from collections.abc import Mapping, Sequence, Set as AbstractSet
from typing import Any, TypeVar

from ..wire.answer_fields import is_set
from ..wire.answer_form import fold_case
from ..wire.merge import merge_patch
from .payloads import LLMRequest, Payload
from .results import RESULT_FIELDS
from .stages import Stage

P = TypeVar("P", bound=Payload)


def apply_edit(stage: Stage[P], payload: P, changes: Mapping[str, Any], patch: Mapping[str, Any] | None = None) -> P:
    """The payload with the changes applied; the same object if they change nothing.

    A field in `changes` replaces the current one, unless it is null. In a merge patch null removes a field. Raises `ValueError`
    if the result is not a valid payload, or if none of the given fields can be edited.
    """
    fields = payload.__dict__
    target: Mapping[str, Any] = fields
    if stage.part is not None:
        target = _editable(stage, payload.wire(payload.meta))
    elif patch is not None:
        target = payload.wire(payload.meta)
    edits = {key: value for key, value in _named(stage, changes, target).items() if value is not None}
    edited = {**target, **edits}
    if patch is not None:
        edited = merge_patch(edited, _named(stage, patch, target))
    if edited == target:
        _require_editable(stage, changes, patch)
        if alike(edited, target):
            return payload
    whole = edited if stage.part is None else {**fields, stage.part: edited}
    valid: P = stage.payload.__pydantic_validator__.validate_python(whole)  # what `model_validate` calls
    return valid


def _require_editable(stage: Stage[P], changes: Mapping[str, Any], patch: Mapping[str, Any] | None) -> None:
    """Raises `ValueError` for an edit that has fields, but none that can be edited."""
    edits = [changes] if is_set(dict(changes)) else []
    edits += [patch] if patch else []  # a null in a patch is an edit
    if edits and not any(map(stage.form.known, edits)):
        names = ", ".join(f"`{name}`" for one in edits for name in one)
        raise ValueError(f"{stage.name} cannot change {names}")


def _named(stage: Stage[P], edits: Mapping[str, Any], target: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields that can be edited. If the stage allows any name, each is spelled as in the payload."""
    editable = _editable(stage, edits)
    return editable if stage.form.editable is not None else fold_case(dict(editable), target.keys())


def _editable(stage: Stage[P], edits: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields that can be edited. A part may come alone, or under its name inside all params."""
    if stage.part is None:
        return edits if edits.keys() <= stage.editable else _only(stage.editable, edits)
    nested = edits.get(stage.part)
    part = nested if isinstance(nested, dict) else edits
    return _only(RESULT_FIELDS, part) if stage.part == "result" else part


def _only(names: AbstractSet[str], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if name in names}


def restrict(before: P, after: P, may_edit: Sequence[str]) -> tuple[P, list[str]]:
    """Undo the edits of a before_llm request that `may_edit` forbids. Returns the request, and the names of undone parts."""
    if after is before or not isinstance(before, LLMRequest) or not isinstance(after, LLMRequest):
        return after, []
    back: dict[str, Any] = {}
    refused: list[str] = []
    for part, name in (("tools", "tools"), ("system", "system_prompt")):
        if part not in may_edit and getattr(after, name) != getattr(before, name):
            back[name] = getattr(before, name)
            refused.append(name)
    for part, of_system in (("system", True), ("messages", False)):
        if part not in may_edit and _messages(after, system=of_system) != _messages(before, system=of_system):
            back["messages"] = before.messages
            refused.append("system messages" if of_system else "messages")
    if not back:
        return after, []
    left = after.model_copy(update=back)
    return (before if left == before else left), refused


def _messages(request: LLMRequest, *, system: bool) -> list[tuple[int, dict[str, Any]]]:
    """The system messages, each with its position; or all other messages, each with 0."""
    return [
        (position if system else 0, message)
        for position, message in enumerate(request.messages)
        if (message.get("role") == "system") is system
    ]


def alike(one: Any, other: Any) -> bool:
    """Whether two equal values are equal as JSON too, where true is not 1."""
    if isinstance(one, dict):
        return all(alike(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return all(map(alike, one, other))
    return isinstance(one, bool) is isinstance(other, bool)
