"""The fields that a hook's answer can have at a stage, in any case of ASCII letters. Standard library only."""

from __future__ import annotations

from . import words

TYPE_CHECKING = False  # as in `words`
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set as AbstractSet
    from typing import Any

NOTES = ("system_message", "additional_context", "inject_messages")
"""Fields that an answer can add to its decision."""
ACTION_FIELDS = {"feedback": words.RETRY, "result": words.RESPOND, "severity": words.DENY}
"""Fields that go with one action only."""
LONGEST_NAME = 64
"""The most characters of a name that may be one of the protocol's in another case."""


class AnswerForm:
    """The fields that an answer at one stage can have."""

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
        """The field that holds the edited payload; empty if the edited fields are in the answer itself."""
        self.part = part
        """The field of the payload that `carries` stands for, if it stands for only one."""
        self.editable = None if editable is None else frozenset(editable)
        """The names in an edited payload; None if it can have any name."""
        self.actions = frozenset(actions)
        self.outer = (self.editable or frozenset()) | ({part} if part else set())
        """The names in an edited payload as a whole."""
        own = {carries} if carries else set(self.editable or ())
        own |= {field for field, action in ACTION_FIELDS.items() if action in self.actions}
        self.names = frozenset({"action", "reason", "patch", *NOTES, *own})
        """The names that are read in an answer."""

    def carried(self, answer: Mapping[str, Any]) -> Any:
        """The edited payload of an answer, with the protocol's names, or None. Raises `ValueError` for a duplicate name."""
        if not self.carries:
            return {name: answer[name] for name in self.editable or () if answer.get(name) is not None} or None
        return self._payload(answer.get(self.carries))

    def patch(self, answer: Mapping[str, Any]) -> Any:
        """The merge patch of an answer, with the protocol's names, or None. Raises `ValueError` for a duplicate name."""
        return self._payload(answer.get("patch"))

    def _payload(self, value: Any) -> Any:
        """The edited payload, or its editable part, which may come alone or inside all of the params."""
        if not isinstance(value, dict):
            return value
        plain = fold_case(value, self.outer)
        inner = plain.get(self.part) if self.part else None
        if isinstance(inner, dict):
            return {self.part: inner if self.editable is None else fold_case(inner, self.editable)}
        return value if self.editable is None else plain

    def known(self, payload: Mapping[str, Any]) -> bool:
        """Whether an edited payload has an editable field."""
        nested = payload.get(self.part) if self.part else None
        inner = nested if isinstance(nested, dict) else payload
        return self.editable is None or any(name in self.editable for name in inner)


def fold_case(fields: dict[str, Any], names: AbstractSet[str]) -> dict[str, Any]:
    """The object with the spelling of `names`: a name that differs from one of them only in ASCII case is replaced by it.

    Raises `ValueError` if one of `names` occurs twice.
    """
    if fields.keys() <= names:
        return fields  # as nearly always
    by_case = {lower(name): name for name in names}
    found: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for name, value in fields.items():
        known = name if name in names else by_case.get(lower(name), name)
        if known in found:
            raise ValueError(f"`{known}` is there twice: as `{spelled[known]}` and as `{name}`")
        found[known] = value
        spelled[known] = name
    return found


def lower(name: Any) -> Any:
    """An ASCII name in lower case. Go matches names like this, and the names of the protocol are ASCII."""
    return name.lower() if isinstance(name, str) and len(name) <= LONGEST_NAME and name.isascii() else name
