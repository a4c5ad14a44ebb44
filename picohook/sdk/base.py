"""What every call has in common, whatever the stage: how a decision is taken, and what is sent of it."""

from __future__ import annotations

from ..wire import words
from .views import EMPTY, Meta, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, ClassVar

    from ..wire.answer_form import AnswerForm
    from .serving import Server


class ToolError(Exception):
    """Raised by a tool: its text is what the model is told."""


class Decision(dict[str, object]):
    """What a handler returns: what goes over the wire, as far as it is known when it is made."""

    __slots__ = ()


class Marker(Decision):
    """A decision that counts already, and says nothing by itself: that something was modified, say."""

    __slots__ = ()


def text(said: object) -> str:
    """What a handler gave as a text, as one that can be sent: a denial does not fail for its reason."""
    return str(said).encode("utf-8", "replace").decode()


class Call(View):
    """A question to the hook."""

    __slots__ = ("_changed", "_handed", "_line", "_notes", "_params", "_server", "decision", "given_up", "id")

    stage: ClassVar[str]
    edits: ClassVar[tuple[str, ...] | None] = ()
    """The names that can be edited; None where any name can be there."""
    carries: ClassVar[str] = ""
    """The field of a reply that carries what was edited; empty where it carries the fields themselves."""
    part: ClassVar[str] = ""
    """The one field of the payload that can be edited, where its own fields are what is edited."""
    mode: ClassVar[str]
    """Under which of `hook.hello`'s modes the host asks it."""

    context: dict[str, Any] | None
    channel: str
    chat_id: str

    def __init__(self, params: dict[str, Any], request_id: object, line: bytes, server: Server) -> None:
        self._params = params
        self._handed: dict[str, object] = {}
        """What was handed out that can be changed in place, as it was."""
        self.id = request_id
        self.given_up = False
        self.decision: dict[str, Any] | None = None
        self._line = line
        self._server = server
        self._changed: set[str] | None = None
        self._notes: dict[str, Any] | None = None

    @property
    def params(self) -> dict[str, Any]:  # type: ignore[override] # of all views this one alone can be changed
        """What was sent."""
        for name in self._params:
            self._hand_out(name)
        return self._params

    @property
    def meta(self) -> Meta:
        """Where in the agent's run this is."""
        return Meta(self._params.get("meta") or {})

    @property
    def cancelled(self) -> bool:
        """Whether the host stopped waiting for the answer. To be looked at by what takes long and is not awaited."""
        if not self.given_up:
            self._server.look_for_cancel(self)
        return self.given_up

    def progress(self, message: str = "") -> None:
        """Tell the host that this is at work: it waits its whole timeout again, up to the hook's `max_timeout`."""
        self._server.progress(self.id, message)

    # For the server.

    def take(self, answer: object) -> None:
        """Take what a handler returned. Raises `TypeError` or `ValueError` for what is no decision."""
        if answer is None or answer is self.decision or isinstance(answer, Marker):
            return
        if not isinstance(answer, dict):
            raise TypeError(f"a handler of {self.stage} returns a decision or None, and not {type(answer).__name__}")
        if answer != words.CONTINUE_RESULT:
            from ..wire.answer_fields import understand  # noqa: PLC0415 - the methods of a call make no such answer

            answer = understand(self.form(), answer)
        if not self.denied:
            self.decision = answer

    def reply(self) -> dict[str, Any] | None:
        """The result to send; None for a plain `continue`."""
        raise NotImplementedError

    @classmethod
    def form(cls) -> AnswerForm:
        """What an answer can hold."""
        from ..wire.answer_form import AnswerForm  # noqa: PLC0415 - likewise

        form = _FORMS.get(cls)
        if form is None:
            actions = [action for method, action in _METHODS.items() if hasattr(cls, method)]
            actions += _EVERYWHERE
            form = AnswerForm(cls.stage, carries=cls.carries, part=cls.part, editable=cls.edits, actions=actions)
            _FORMS[cls] = form
        return form

    def _hand_out(self, name: str) -> Any:
        """A field, of which it is kept in mind how it was."""
        value = self._params.get(name)
        if name not in self._handed:
            self._handed[name] = _copy(value) if value.__class__ in _CONTAINERS else value
        return value

    @property
    def _touched(self) -> bool:
        """Whether anything is not any more as it was handed out."""
        params = self._params
        for name, was in self._handed.items():  # noqa: SIM110 - a loop is twice as fast, and this is done for every call
            if params.get(name) != was:
                return True
        return False

    def _changed_in_place(self) -> list[str]:
        """The fields that are not any more as they were sent. Raises `TypeError` for one that cannot be changed."""
        if not self._touched:
            return []
        from .edits import same  # noqa: PLC0415 - few change anything

        before = self._before()
        changed = []
        for name in self._handed:
            old, new = before.get(name), self._params.get(name)
            if name == "result" and isinstance(new, dict):  # its fields are made when they are looked at
                new = {key: value for key, value in new.items() if value or key in (old or ())}
            if old is None and not new:
                continue  # and so was this
            if same(old, new):
                continue
            if name not in self._params or not (name == self.part if self.part else name in (self.edits or ())):
                raise TypeError(f"`{name}` was changed in place, and that is no edit at {self.stage}")
            changed.append(name)
        return changed

    def _before(self) -> dict[str, Any]:
        """What was sent, anew."""
        return self._server.decode(self._line).get("params") or {}

    @classmethod
    def _field(cls, key: str, kind: str) -> property:
        if kind in {"str", "int", "bool"}:
            return super()._field(key, kind)
        empty = EMPTY.get(kind)

        def field(call: Call) -> Any:
            if empty is not None and call._params.get(key) is None:
                call._params[key] = empty()
            return call._hand_out(key)

        return property(field)

    @property
    def denied(self) -> bool:
        """Whether the tool is not to run, whatever else comes."""
        return self.decision is not None and self.decision.get("action") == words.DENY


class Interception(Call):
    """A question about something that the hook may change."""

    __slots__ = ()

    def abort(self, reason: str = "", *, hard: bool = False) -> Decision:
        """End this turn with an error; `hard`: end the agent loop."""
        return self._decide(words.HARD_ABORT if hard else words.ABORT_TURN, reason)

    def note(
        self,
        *,
        reason: str = "",
        system_message: str = "",
        additional_context: str = "",
        inject_messages: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Add something beside the decision, whatever that is: said twice, it is both.

        `system_message` is shown to the user, `additional_context` appended to the system prompt of the next request, and
        `inject_messages` to its messages.
        """
        notes = self._notes = self._notes or {}
        said = {"reason": reason, "system_message": system_message, "additional_context": additional_context}
        for name, text in said.items():
            if text:
                notes[name] = f"{notes[name]}\n{text}" if name in notes else text
        messages = [*notes.get("inject_messages", ()), *inject_messages]
        if messages:
            notes["inject_messages"] = messages

    def reply(self) -> dict[str, Any] | None:
        decision, changed = self.decision, self._changed or set()
        action = None if decision is None else decision.get("action")
        goes_on = action in _GOES_ON
        if (goes_on or action == words.RETRY) and self._touched:
            changed = changed.union(self._changed_in_place())
        if not changed:
            return {**self._notes, **(decision or {})} if self._notes else decision
        notes, edits = self._notes or {}, {}
        if changed and goes_on:
            edits = self._edits(changed - self._edited_by(decision or {}))
        elif changed and action in {words.RESPOND, words.RETRY}:
            edits = self._carried({name: self._params[name] for name in changed})
        if decision is None:
            return {**edits, **notes} or None
        if edits and goes_on:
            own = {
                name: {**edits[name], **(decision.get(name) or {})} for name in {self.carries, "patch"} & edits.keys()
            }
            decision = {**edits, **decision, "action": words.MODIFY, **own}
        return {**edits, **notes, **decision} if edits or notes else decision

    def _edited_by(self, decision: Mapping[str, Any]) -> set[str]:
        """The fields that a decision edits itself."""
        own = {*(decision.get(self.carries) or ()), *(decision.get("patch") or ())} if self.carries else {*decision}
        return {self.part} if self.part and own else own

    def _decide(self, action: str, reason: str, **fields: object) -> Decision:
        decision = Decision(action=action, **fields)
        if reason:
            decision["reason"] = text(reason)
        if not self.denied:
            self.decision = decision
        return decision

    def _modify(self, reason: str, fields: Mapping[str, Any]) -> Decision:
        """Set these fields, those that are not None, and send all that is changed in the payload by then."""
        target = self._params
        if self.part:
            target = target.setdefault(self.part, {})
        given = {name: value for name, value in fields.items() if value is not None}
        target.update(given)
        self._changed = (self._changed or set()) | ({self.part} if self.part else fields.keys())
        if reason:
            self.note(reason=reason)
        return Marker(action=words.MODIFY)

    def _edits(self, names: set[str]) -> dict[str, Any]:
        """The smallest reply that makes these fields what they are now: a merge patch, and whole what no patch can say."""
        from .edits import difference  # noqa: PLC0415 - hooks that only watch never need it

        before = self._before()
        if self.part:
            if not names:
                return {}
            patch, whole = difference(before.get(self.part) or {}, self._params[self.part])
            patch = {self.part: patch} if patch else {}
        else:
            patch, whole = difference(
                {name: before.get(name) for name in names}, {name: self._params.get(name) for name in names}
            )
        if not patch and not whole:
            return {}
        edits: dict[str, Any] = {"action": words.MODIFY, **self._carried(whole)}
        if patch:
            edits["patch"] = patch
        return edits

    def _carried(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {self.carries: fields} if self.carries and fields else fields


_CONTAINERS = (dict, list)


def _copy(value: Any) -> Any:
    """A dict or a list with its own dicts and lists, and the same leaves: so it is compared in no time."""
    copied = value.copy()
    for key, inner in value.items() if value.__class__ is dict else enumerate(value):
        if inner.__class__ in _CONTAINERS:
            copied[key] = _copy(inner)
    return copied


_FORMS: dict[type[Call], AnswerForm] = {}
_GOES_ON = frozenset({None, "", words.CONTINUE, words.MODIFY})
_EVERYWHERE = (words.CONTINUE, words.MODIFY, words.ABORT_TURN, words.HARD_ABORT)
_METHODS = {
    "respond": words.RESPOND,
    "deny": words.DENY,
    "skip": words.SKIP,
    "retry": words.RETRY,
    "pause": words.PAUSE,
}
"""The actions that not all stages have, by the methods of a call."""
