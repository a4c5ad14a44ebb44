"""Streams the text of a model's answer to LangChain's graph, as hooks let it pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from . import extra
from .agent_run import having
from .langchain_graphs import asked_for

with extra("langchain"):
    from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager
    from langchain_core.messages import AIMessage, AIMessageChunk
    from langchain_core.outputs import ChatGenerationChunk, LLMResult
    from langchain_core.runnables.config import ensure_config, var_child_runnable_config
    from langgraph.constants import TAG_NOSTREAM

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from uuid import UUID

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun

    from .. import ResponseStream

T = TypeVar("T")


class HeldAnswer(AsyncCallbackHandler):
    """Reads the pieces of one answer, which the graph does not stream, and streams the text that hooks let pass."""

    run_inline = True
    raise_error = True

    def __init__(self, stream: ResponseStream) -> None:
        self._stream = stream
        self._read: UUID | None = None
        self._manager: Any = None
        self._shown: AsyncCallbackManagerForLLMRun | None = None

    async def read(self, call: Awaitable[T]) -> T:
        """Await a call of the model. The graph streams nothing of its answer by itself."""
        config = ensure_config()
        self._manager = config.get("callbacks")
        hidden: Any = {**config, "tags": [*config.get("tags", ()), TAG_NOSTREAM]}
        if isinstance(self._manager, AsyncCallbackManager):
            hidden["callbacks"] = self._manager.copy()
            hidden["callbacks"].add_handler(self)
        try:
            with having(var_child_runnable_config, hidden):
                return await asked_for(call)
        except BaseException as error:
            if self._shown is not None:
                await self._shown.on_llm_error(error)
            raise

    async def on_llm_new_token(self, *_: Any, chunk: Any = None, run_id: UUID, **__: Any) -> None:
        """Add a piece of the model's text, and stream what hooks let pass."""
        self._read = self._read or run_id
        if run_id == self._read and isinstance(chunk, ChatGenerationChunk):  # another run is that of a fallback
            text = await self._stream.add(chunk.message.text)
            if text:
                await self._show(AIMessageChunk(content=text, id=chunk.message.id))

    async def finish(self, answer: AIMessage) -> None:
        """Stream what is left of the answer, if any of it was streamed. Otherwise the graph streams it whole."""
        if self._shown is None:
            return
        calls = answer.tool_calls + answer.invalid_tool_calls
        rest = AIMessageChunk(
            content=self._stream.rest,
            tool_calls=answer.tool_calls,
            invalid_tool_calls=answer.invalid_tool_calls,
            id=answer.id,
        )
        if self._stream.rest or calls:
            await self._show(rest)
        await self._shown.on_llm_end(LLMResult(generations=[]))

    async def _show(self, message: AIMessageChunk) -> None:
        if self._shown is None:
            (self._shown,) = await asked_for(self._manager.on_chat_model_start({"name": "picohook"}, [[]]))
        await self._shown.on_llm_new_token(message.text, chunk=ChatGenerationChunk(message=message))
