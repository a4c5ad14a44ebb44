"""`Call`, the base of the calls of all stages: it takes a decision and makes the reply that carries it."""

from __future__ import annotations

from json import loads

from ..wire import words
from .views import Meta, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, ClassVar, Protocol

    from ..wire.answer_form import AnswerForm

    class Connection(Protocol):
        """The part of the server that a call uses."""

        def progress(self, request_id: object, message: str) -> None: ...
        def look_for_cancel(self, call: Call) -> None: ...


class ToolError(Exception):
    """An error that a tool raises. The model gets its text."""


class Decision(dict[str, object]):
    """The fields of a reply. The methods of a call return it, and a handler may return it."""

    __slots__ = ()


class Marker(Decision):
    """A decision that the call itself has recorded: `modify` and `add_tool` return it."""

    __slots__ = ()


def text(value: object) -> str:
    """Returns a value as text that can be sent, so that a denial never fails for its reason."""
    return str(value).encode("utf-8", "replace").decode()


class Call(View):
    """A request of the host to the hook."""

    __slots__ = ("_line", "_notes", "_params", "_read", "_server", "decision", "given_up", "id")

    stage: ClassVar[str]
    edits: ClassVar[tuple[str, ...] | None] = ()
    """The fields that can be edited; None if all can be."""
    carries: ClassVar[str] = ""
    """The field of a reply that holds the edited fields; empty if the reply itself holds them."""
    part: ClassVar[str] = ""
    """The field of the payload whose own fields are edited; empty if the fields of the payload are."""
    mode: ClassVar[str]
    """The mode of `hook.hello` that this stage belongs to."""

    context: dict[str, Any] | None
    channel: str
    chat_id: str

    def __init__(self, params: dict[str, Any], request_id: object, line: bytes, server: Connection) -> None:
        self._params = params
        self._read = False
        """Whether a handler has read or set a field: it may have changed the payload."""
        self.id = request_id
        self.given_up = False
        self.decision: dict[str, Any] | None = None
        self._line = line
        self._server = server
        self._notes: dict[str, Any] | None = None

    @property
    def params(self) -> dict[str, Any]:  # type: ignore[override] # a call alone has to notice changes
        """The whole payload, as the host sent it."""
        self._read = True
        return self._params

    @property
    def meta(self) -> Meta:
        """The agent, session, turn and iteration of the call."""
        return Meta(self._params.get("meta") or {})

    @property
    def cancelled(self) -> bool:
        """Whether the host stopped waiting for the answer. A plain function that takes long should check it."""
        if not self.given_up:
            self._server.look_for_cancel(self)
        return self.given_up

    def progress(self, message: str = "") -> None:
        """Tell the host that the hook is still working. Its timeout starts again, up to the hook's `max_timeout`."""
        self._server.progress(self.id, message)

    # For the server.

    def take(self, answer: object) -> None:
        """Take a handler's result. Raises `TypeError` or `ValueError` if it is not a decision."""
        if answer is None or answer is self.decision or isinstance(answer, Marker):
            return
        if not isinstance(answer, dict):
            raise TypeError(f"{self.stage}: a handler returns a decision or None, and not {type(answer).__name__}")
        if answer != words.CONTINUE_RESULT:
            from ..wire.answer_fields import understand  # only for dicts that a handler made itself

            answer = understand(self.form(), answer)
        if not self.denied:
            self.decision = answer

    def reply(self) -> dict[str, Any] | None:
        """Returns the result to send; None for a plain `continue`."""
        raise NotImplementedError

    @classmethod
    def form(cls) -> AnswerForm:
        """Returns the form of an answer at this stage."""
        from ..wire.answer_form import AnswerForm  # only for dicts that a handler made itself

        own = [action for method, action in _METHODS.items() if hasattr(cls, method)]
        actions = (*_EVERY_STAGE, *own)
        return AnswerForm(cls.stage, carries=cls.carries, part=cls.part, editable=cls.edits, actions=actions)

    def _changed(self, before: dict[str, Any]) -> set[str]:
        """Returns the fields that handlers changed. Raises `TypeError` for one that cannot be edited."""
        changed = set()
        for name in {**before, **self._params} if before is not self._params else ():
            old, new = before.get(name), self._params.get(name)
            if name == "result" and isinstance(new, dict):  # reading a field creates it
                new = {key: value for key, value in new.items() if value or key in (old or ())}
            if _same(old, new) or (old is None and not new):  # reading the field created it
                continue
            if name not in self._params or not (name == self.part if self.part else name in (self.edits or ())):
                raise TypeError(f"{self.stage}: `{name}` was changed in place, and cannot be edited at this stage")
            changed.add(name)
        return changed

    def _before(self) -> dict[str, Any]:
        """Returns the payload that the host sent: decoded again if a handler may have changed it."""
        return loads(self._line.decode()).get("params") or {} if self._read else self._params

    @property
    def denied(self) -> bool:
        """Whether a denial was decided. It cannot be taken back."""
        return self.decision is not None and self.decision.get("action") == words.DENY


class Interception(Call):
    """A call whose payload the hook may edit."""

    __slots__ = ()

    def abort(self, reason: str = "", *, hard: bool = False) -> Decision:
        """End this turn with an error; with `hard`, end the agent loop."""
        return self._decide(words.HARD_ABORT if hard else words.ABORT_TURN, reason)

    def note(
        self,
        *,
        reason: str = "",
        system_message: str = "",
        additional_context: str = "",
        inject_messages: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Add notes to the answer, whatever the decision is. Notes of several calls are joined.

        The user sees `system_message`. `additional_context` is appended to the system prompt of the next request, and
        `inject_messages` to its messages.
        """
        notes = self._notes = self._notes or {}
        texts = {"reason": reason, "system_message": system_message, "additional_context": additional_context}
        for name, added in texts.items():
            if added:
                notes[name] = f"{notes[name]}\n{added}" if name in notes else added
        messages = [*notes.get("inject_messages", ()), *inject_messages]
        if messages:
            notes["inject_messages"] = messages

    def reply(self) -> dict[str, Any] | None:
        decision, notes = self.decision, self._notes or {}
        edits: dict[str, Any] = {}
        action = None if decision is None else decision.get("action")
        if action in _NOT_ENDING:
            before = self._before()
            edits = self._edits(before, self._changed(before))
        elif action == words.RETRY:
            edits = self._carried({name: self._params[name] for name in self._changed(self._before())})
        if decision is None:
            return {**edits, **notes} or None
        if edits and action in _NOT_ENDING:
            own = {
                name: {**edits[name], **(decision.get(name) or {})} for name in {self.carries, "patch"} & edits.keys()
            }
            decision = {**edits, **decision, "action": words.MODIFY, **own}
        return {**edits, **notes, **decision} if edits or notes else decision

    def _decide(self, action: str, reason: str, **fields: object) -> Decision:
        decision = Decision(action=action, **fields)
        if reason:
            decision["reason"] = text(reason)
        if not self.denied:
            self.decision = decision
        return decision

    def _modify(self, reason: str, fields: Mapping[str, Any]) -> Decision:
        """Set the fields that are not None. The reply sends the fields that differ when it is made."""
        target = self._params
        if self.part:
            target = target.setdefault(self.part, {})
        edits = {name: value for name, value in fields.items() if value is not None}
        target.update(edits)
        self._read = True
        if reason:
            self.note(reason=reason)
        return Marker(action=words.MODIFY)

    def _edits(self, before: dict[str, Any], names: set[str]) -> dict[str, Any]:
        """Returns the edit that gives these fields their present values. A field is sent whole; null in a patch removes it."""
        after = {name: self._params.get(name) for name in names}
        if self.part and names:
            before, after = before.get(self.part) or {}, self._params[self.part]
            names = {*before, *after}
        changed = {name: after.get(name) for name in names if not _same(before.get(name), after.get(name))}
        if not changed:
            return {}
        edits = self._carried({name: value for name, value in changed.items() if value is not None})
        removed: dict[str, Any] = {name: None for name, value in changed.items() if value is None}
        if removed:
            edits["patch"] = {self.part: removed} if self.part else removed
        return {"action": words.MODIFY, **edits}

    def _carried(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {self.carries: fields} if self.carries and fields else fields


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: true is not 1."""
    if one.__class__ is not other.__class__:
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


_NOT_ENDING = frozenset({None, "", words.CONTINUE, words.MODIFY})
_EVERY_STAGE = (words.CONTINUE, words.MODIFY, words.ABORT_TURN, words.HARD_ABORT)
_METHODS = {
    "respond": words.RESPOND,
    "deny": words.DENY,
    "skip": words.SKIP,
    "retry": words.RETRY,
    "pause": words.PAUSE,
}
"""The actions that only some stages have, by the method of the call that makes the decision."""
