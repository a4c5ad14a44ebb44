"""Requests to a model, and answers to a result's questions: held while hooks decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import PicohookError
from ...rpc.jsonrpc import REFUSED
from .held import Held
from .messages import RefusedLineError, error_line, line_of, result_line
from .model_question import ModelQuestion, note_hard_abort

if TYPE_CHECKING:
    from collections.abc import Callable

    from .held import Shared
    from .messages import Message


class HeldSampling(Held):
    """A question of an older server to the client's model."""

    def __init__(self, shared: Shared, line: bytes, request: Message) -> None:
        """Take the line of a request. Raises `RefusedLineError`."""
        super().__init__(shared, line, request)
        try:
            self._question = ModelQuestion(shared.session, shared.server, request.get("params", {}), self._meta())
        except ValueError as error:
            raise RefusedLineError(str(error), asks=self.id) from None

    async def run(self, send: Callable[[bytes], None]) -> bytes:
        """Ask the hooks, `send` the question to the client, and ask them about the answer. Returns the line for the server.

        Raises `RefusedLineError` if the client's answer cannot be shown to hooks.
        """
        question, line, answer = self._question, b"", None
        try:
            await question.ask()
            if question.result is None:
                line, response = await self._forward(self._edited_line(), send)
                if "error" in response:
                    question.close()
                    return line
                answer = response["result"]
                await question.conclude(answer)
            while question.result is None:
                line = b""
                await question.conclude(await self._shared.ask_client(self._request["method"], question.params))
        except PicohookError as error:
            note_hard_abort(self._session, error)
            return error_line(self.id, f"a hook refused the question to the model: {error}", REFUSED)
        except ValueError as error:
            raise RefusedLineError(str(error)) from None
        return line if line and question.result is answer else result_line(self.id, question.result)

    def _edited_line(self) -> bytes:
        """The line for the client: the server's own, unless hooks edited the question."""
        params = self._question.params
        return self._line if params is self._request.get("params") else line_of({**self._request, "params": params})


class HeldRepeat(Held):
    """A request of a newer client, other than a tool call, that answers questions to the model."""

    async def run(self, send: Callable[[bytes], None]) -> bytes:
        """Ask the hooks about the answers, `send` the request, and ask them about its result. Raises `RefusedLineError`."""
        rounds = self._shared.rounds
        params, result = await rounds.answered(self._request["params"])
        if result is not None:
            return result_line(self.id, result)
        line, response = await self._forward(line_of({**self._request, "params": params}), send)
        return await rounds.asked(line, response, self._meta())
