"""What every call has in common, whatever the stage: how a decision is taken, and what is sent of it."""

from __future__ import annotations

from .. import wire
from .views import Meta, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, ClassVar

    from .serving import Server


class ToolError(Exception):
    """Raised by a tool: its text is what the model is told."""


class Decision(dict[str, object]):
    """What a handler returns: what goes over the wire, as far as it is known when it is made."""

    __slots__ = ()


def text(said: object) -> str:
    """What a handler gave as a text, as one that can be sent: a denial does not fail for its reason."""
    return str(said).encode("utf-8", "replace").decode()


class Call(View):
    """A question to the hook."""

    __slots__ = ("_changed", "_line", "_notes", "_server", "decision", "given_up", "id")

    stage: ClassVar[str]
    mode: ClassVar[str]
    """Under which of `hook.hello`'s modes the host asks it."""

    context: dict[str, Any] | None
    channel: str
    chat_id: str

    def __init__(self, params: dict[str, Any], request_id: object, line: bytes, server: Server) -> None:
        self.params = params
        self.id = request_id
        self.given_up = False
        self.decision: dict[str, Any] | None = None
        self._line = line
        self._server = server
        self._changed: set[str] | None = None
        self._notes: dict[str, Any] | None = None

    @property
    def meta(self) -> Meta:
        """Where in the agent's run this is."""
        return Meta(self.params.get("meta") or {})

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
        """Take what a handler returned."""
        if answer is None or isinstance(answer, Decision):
            return
        if not isinstance(answer, dict):
            raise TypeError(f"a handler of {self.stage} returns a decision or None, and not {type(answer).__name__}")
        if not self.denied:
            self.decision = answer

    def reply(self) -> dict[str, Any] | None:
        """The result to send; None for a plain `continue`."""
        raise NotImplementedError

    @property
    def denied(self) -> bool:
        """Whether the tool is not to run, whatever else comes."""
        return self.decision is not None and self.decision.get("action") == wire.DENY


class Interception(Call):
    """A question about something that the hook may change."""

    __slots__ = ()

    carries: ClassVar[str] = ""
    """The field of a reply that carries what was edited; empty where it carries the fields themselves."""
    part: ClassVar[str] = ""
    """The one field of the payload that can be edited, where its own fields are what is edited."""

    def abort(self, reason: str = "", *, hard: bool = False) -> Decision:
        """End this turn with an error; `hard`: end the agent loop."""
        return self._decide(wire.HARD_ABORT if hard else wire.ABORT_TURN, reason)

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
        decision, changed = self.decision, self._changed
        if decision is None:
            if changed is not None:
                return {**self._edits(changed), **(self._notes or {})} or None
            return self._notes
        if changed and decision.get("action") in {wire.RESPOND, wire.RETRY}:
            decision = {**self._carried({name: self.params[name] for name in changed}), **decision}
        return {**self._notes, **decision} if self._notes else decision

    def _decide(self, action: str, reason: str, **fields: object) -> Decision:
        decision = Decision(action=action, **fields)
        if reason:
            decision["reason"] = text(reason)
        if not self.denied:
            self.decision = decision
        return decision

    def _modify(self, reason: str, fields: Mapping[str, Any]) -> Decision:
        """Set these fields, those that are not None, and send all that is changed in the payload by then."""
        target = self.params
        if self.part:
            target = target.setdefault(self.part, {})
        given = {name: value for name, value in fields.items() if value is not None}
        target.update(given)
        self._changed = (self._changed or set()) | ({self.part} if self.part else fields.keys())
        if reason:
            self.note(reason=reason)
        return Decision(action=wire.MODIFY)

    def _edits(self, names: set[str]) -> dict[str, Any]:
        """The smallest reply that makes these fields what they are now: a merge patch, and whole what no patch can say."""
        from .edits import difference  # noqa: PLC0415 - hooks that only watch never need it

        before = self._server.decode(self._line).get("params") or {}
        if self.part:
            patch, whole = difference(before.get(self.part) or {}, self.params[self.part])
            patch = {self.part: patch} if patch else {}
        else:
            patch, whole = difference(
                {name: before.get(name) for name in names}, {name: self.params.get(name) for name in names}
            )
        if not patch and not whole:
            return {}
        edits: dict[str, Any] = {"action": wire.MODIFY, **self._carried(whole)}
        if patch:
            edits["patch"] = patch
        return edits

    def _carried(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {self.carries: fields} if self.carries and fields else fields
