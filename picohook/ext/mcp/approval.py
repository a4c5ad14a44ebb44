"""An approver that asks the user through the MCP client, by elicitation.

An older client is sent a request, and answers it. A newer client gets the question as the result of its call, and repeats the
call with the answer. The repeated call has to be the same and in time, and each answer counts once.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from ...hooks.function import FunctionHook
from ...model.decisions import APPROVE, Approve, Deny
from ...model.filters import Filter
from ...model.stages import APPROVE_TOOL
from ...wire.text import cut
from .messages import VERSION, meta_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...model.payloads import ToolCall
    from ...sessions.base_session import BaseSession

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
"""The member of `_meta` in which a newer client states its capabilities with each request."""
OF_ROUNDS = ("requestState", "inputResponses")
"""The members of a call's params with which a newer client answers a question."""
QUESTION = "picohook_approval"
"""The key of the question in a result, and of its answer in the repeated call."""
STATE = "picohook."
"""The beginning of the states that picohook gives to clients. Servers never see one."""
EXPIRES = 600.0
"""Seconds in which a newer client has to repeat its call."""
MOST_WAITING = 1000
"""The most questions to newer clients that wait for an answer. The oldest are forgotten."""
SHOWN_OF_ARGUMENTS = 4000
"""The most bytes of a call's arguments that the user is shown."""


@dataclass(slots=True)
class Round:
    """One call of a client, with the answer that it may carry."""

    newer: bool
    """Whether it is a call of the newer protocol."""
    can_ask: bool
    """Whether the client can ask its user."""
    carried: dict[str, Any]
    """The server's own state and answers in this call."""
    answered: bool = False
    """Whether the client repeats a call that picohook asked about."""
    digest: str = ""
    """The digest of the call in the question; empty if the question is unknown or expired."""
    answer: Any = None
    result: dict[str, Any] | None = None
    """The result that asks the client."""


_round: ContextVar[Round] = ContextVar("picohook_mcp_round")


class ClientApprover(FunctionHook):
    """Approves a call if the user does.

    If the client cannot ask its user, the other approvers decide. Without any, the call is denied.
    """

    waits_for_person = True

    def __init__(self, tools: str) -> None:
        """Take a pattern of tools, as in a filter. Raises `ValueError` if it cannot be read."""
        named = Filter(tool=tools)
        if named.unreadable:
            raise ValueError(named.unreadable)
        super().__init__("mcp_client", {APPROVE_TOOL.name: self._approve}, filter=named)
        self.session: BaseSession
        self.ask: Callable[[str, dict[str, Any]], Awaitable[Any]]
        """Sends a request to an older client. Returns its result, or None without one."""
        self._older_can_ask = False
        self._questions: dict[str, tuple[str, float, dict[str, Any]]] = {}
        """The questions to newer clients by state: the call's digest, its expiry, and the state that it carried."""

    def initialized(self, params: dict[str, Any]) -> None:
        """Take the capabilities of an older client from its greeting."""
        self._older_can_ask = _can_ask(params.get("capabilities"))

    def begin(self, params: dict[str, Any]) -> tuple[Round, dict[str, Any]]:
        """Begin a round with the params of a call. Returns it, and the params for the server."""
        about = meta_of(params)
        own: dict[str, Any] = {name: params[name] for name in OF_ROUNDS if name in params}
        made = Round(VERSION in about, _can_ask(about.get(CAPABILITIES)), own)
        _round.set(made)
        state = params.get("requestState")
        if type(state) is not str or not state.startswith(STATE):
            return made, params
        made.answered = True
        digest, until, made.carried = self._questions.pop(state, ("", 0.0, {}))
        made.digest = digest if anyio.current_time() < until else ""
        answers = params.get("inputResponses")
        made.answer = answers.get(QUESTION) if type(answers) is dict else None
        return made, {name: value for name, value in params.items() if name not in own} | made.carried

    async def _approve(self, call: ToolCall) -> Approve | Deny:
        now = _round.get()
        shown = json.dumps([call.tool, call.arguments], sort_keys=True)
        digest = hashlib.sha256(shown.encode()).hexdigest()
        if now.answered:
            if now.digest != digest:
                return Deny("the approval is for another call, has expired, or was used before")
            return _verdict(now.answer)
        if not (now.can_ask if now.newer else self._older_can_ask):
            return self._leave_to_others(call)
        arguments = json.dumps(call.arguments)  # ASCII: no character of it acts on a screen
        left_out = f"… ({len(arguments)} characters in all)" if len(arguments) > SHOWN_OF_ARGUMENTS else ""
        tool = json.dumps(call.tool)[1:-1]
        question = {
            "message": f"Allow {tool}?\n{cut(arguments, SHOWN_OF_ARGUMENTS)}{left_out}\nSHA-256 of the call: {digest}",
            "requestedSchema": {
                "type": "object",
                "properties": {"approve": {"type": "boolean", "title": "Allow this call", "default": False}},
                "required": ["approve"],
            },
        }
        if not now.newer:
            return _verdict(await self.ask("elicitation/create", question))
        state = STATE + secrets.token_urlsafe(32)
        self._questions[state] = digest, anyio.current_time() + EXPIRES, now.carried
        if len(self._questions) > MOST_WAITING:
            del self._questions[next(iter(self._questions))]
        now.result = {
            "resultType": "input_required",
            "inputRequests": {QUESTION: {"method": "elicitation/create", "params": {"mode": "form", **question}}},
            "requestState": state,
        }
        return Deny("the user is asked first")

    def _leave_to_others(self, call: ToolCall) -> Approve | Deny:
        others = [
            hook.spec
            for hook in self.session.host.hooks
            if APPROVE_TOOL.name in hook.spec.asked_at and not hook.abstains
        ]
        if any(spec.filter is None or spec.filter.matches(call) for spec in others if spec.name != self.name):
            return APPROVE
        return Deny("the client cannot ask its user, and there is no other approver")


def _can_ask(capabilities: Any) -> bool:
    """Whether a client with these capabilities can show its user a form."""
    elicitation = capabilities.get("elicitation") if type(capabilities) is dict else None
    return type(elicitation) is dict and (not elicitation or "form" in elicitation)


def _verdict(answer: Any) -> Approve | Deny:
    """The decision in the result of an elicitation. Anything but a clear yes is a denial."""
    if type(answer) is not dict:
        return Deny("the client did not answer the question")
    content = answer.get("content")
    if answer.get("action") == "accept" and type(content) is dict and content.get("approve") is True:
        return APPROVE
    return Deny("the user did not approve it")
