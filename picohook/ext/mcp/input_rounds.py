"""Questions to the model in the results of newer servers. The client answers them when it repeats its request.

Between the two, the client has a state of picohook's in place of the server's. This state stands for questions that hooks have
seen, and counts once.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from ...errors import PicohookError
from .messages import ASKS, Message, RefusedLineError, line_of
from .model_question import ModelQuestion, note_hard_abort

if TYPE_CHECKING:
    from ...model.payloads import Meta
    from ...sessions.base_session import BaseSession

STATE = "picohook-model."
"""The beginning of the states. Servers never see one."""
EXPIRES = 600.0
"""Seconds in which a client has to repeat its request."""
ANSWER = frozenset({"role", "content"})
"""The members by which a model's answer can be told from a user's."""
MOST_BYTES = 16 << 20
"""The most bytes of questions that wait for their answers. The oldest are forgotten."""


@dataclass(slots=True)
class _Round:
    """A result that asks the client, until the client repeats its request."""

    asked: dict[str, ModelQuestion]
    """The questions to the model by key."""
    answers: dict[str, Any]
    """The answers to others that hooks have left already."""
    own: dict[str, Any]
    """The server's own state, if it has one, as a member of the params."""
    until: float
    size: int


class InputRounds:
    """The questions of one server to its client's model, in results."""

    def __init__(self, session: BaseSession, server: str) -> None:
        self._session = session
        self._server = server
        self._rounds: dict[str, _Round] = {}

    async def asked(self, line: bytes, response: Message, meta: Meta) -> bytes:
        """Ask hooks about the questions in a result. Returns the line for the client: the given one, if there are none.

        Raises `RefusedLineError` if hooks refuse one of them.
        """
        result: Any = response.get("result")
        if not asks_model(result):
            return line
        requests = result["inputRequests"]
        try:
            questions = {
                key: ModelQuestion(self._session, self._server, one.get("params", {}), meta)
                for key, one in requests.items()
                if type(one) is dict and one.get("method") == ASKS["sampling"]
            }
            for question in questions.values():
                await question.ask()
        except (PicohookError, ValueError) as error:
            raise self._refusal(error) from None
        own = {name: result[name] for name in ("requestState",) if name in result}
        new = self._result(_Round(questions, {}, own, 0.0, len(line)), requests)
        return line_of({**response, "result": {**result, **new}})

    async def answered(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Ask hooks about the answers in a repeated request.

        Returns the params for the server, and a result for the client if the model must be asked again. Raises
        `RefusedLineError` if hooks refuse an answer, and for a state that does not count.
        """
        state = params.get("requestState")
        responses: Any = params.get("inputResponses", {})
        if type(state) is not str or not _is_state(state):
            if type(responses) is dict and any(
                type(one) is dict and one.keys() >= ANSWER for one in responses.values()
            ):
                raise RefusedLineError("it answers a question to the model that hooks were not asked about")
            return params, None
        begun = self._rounds.pop(state, None)
        if begun is None or anyio.current_time() >= begun.until:
            raise RefusedLineError(
                "the answers to the server's questions came too late, or twice: begin the request anew"
            )
        if type(responses) is not dict:
            raise RefusedLineError("its inputResponses are not an object")
        answers = {**responses, **begun.answers}
        again = {}
        try:
            for key, question in begun.asked.items():
                if question.result is None and key in responses:
                    await question.conclude(responses[key])
                    if question.result is None:
                        again[key] = question
                        continue
                if question.result is not None:
                    answers[key] = question.result
        except (PicohookError, ValueError) as error:
            raise self._refusal(error) from None
        if again:
            answers = {key: one for key, one in answers.items() if key not in again}
            begun.asked, begun.answers = again, answers
            return params, {"resultType": "input_required", **self._result(begun, {})}
        left_out = {"requestState", "inputResponses"}
        left = {name: value for name, value in params.items() if name not in left_out}
        return {**left, **begun.own, "inputResponses": answers}, None

    def _result(self, begun: _Round, requests: dict[str, Any]) -> dict[str, Any]:
        """The members of the result that begins a round."""
        questions = {
            key: {"method": ASKS["sampling"], **requests.get(key, {}), "params": question.params}
            for key, question in begun.asked.items()
            if question.result is None
        }
        others = {key: one for key, one in requests.items() if key not in begun.asked}
        begun.until = anyio.current_time() + EXPIRES
        state = STATE + secrets.token_urlsafe(32)
        self._rounds[state] = begun
        while sum(one.size for one in self._rounds.values()) > MOST_BYTES and len(self._rounds) > 1:
            del self._rounds[next(iter(self._rounds))]
        return {"inputRequests": {**others, **questions}, "requestState": state}

    def _refusal(self, error: Exception) -> RefusedLineError:
        note_hard_abort(self._session, error)
        return RefusedLineError(f"a question to the model was refused: {error}")


def asks_model(result: Any) -> bool:
    """Whether a result has a question to the model."""
    requests = result.get("inputRequests") if type(result) is dict else None
    return type(requests) is dict and any(
        type(one) is dict and one.get("method") == ASKS["sampling"] for one in requests.values()
    )


def is_repeat(params: Any) -> bool:
    """Whether these params answer the questions of a result."""
    return type(params) is dict and ("inputResponses" in params or _is_state(params.get("requestState")))


def _is_state(state: Any) -> bool:
    """Whether it is a state of picohook's."""
    return type(state) is str and state.startswith(STATE)
