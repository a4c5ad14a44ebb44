"""Builds the input of the next of Gemini CLI's handlers, where handlers run one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..contract import HandlerAnswer, HandlerInput


def chain(event: str, handler_input: HandlerInput, answer: HandlerAnswer) -> HandlerInput:
    """Returns the next handler's input: the changed call or request, or the prompt with the context."""
    stdin = handler_input.stdin
    if event == "BeforeTool" and answer.input is not None and handler_input.call is not None:
        changed = {**handler_input.call.input, **answer.input}
        call = handler_input.call._replace(input=changed, given=handler_input.call.arguments(changed))
        return handler_input._replace(stdin={**stdin, "tool_input": changed}, call=call)
    if event == "BeforeModel" and isinstance(answer.output, dict) and "llm_request" in answer.output:
        return handler_input._replace(
            stdin={**stdin, "llm_request": {**stdin["llm_request"], **answer.output["llm_request"]}}
        )
    if event == "BeforeAgent" and answer.context:
        return handler_input._replace(stdin={**stdin, "prompt": f"{stdin['prompt']}\n\n{answer.context}"})
    return handler_input
