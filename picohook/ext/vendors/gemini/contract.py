"""Gemini CLI's contract with its hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import patterns
from ..contract import Dialect
from .decode import read
from .encode import gemini_call, tell
from .events import ANSWERS, COMMON, EVENTS, UNSUPPORTED, VERSION
from .merge import counted, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..contract import HandlerAnswer, HandlerInput


def matches(event: str, matcher: str, names: Sequence[str]) -> bool:
    """Whether a matcher matches: for tools an expression, otherwise the same word."""
    matcher = matcher.strip()
    if EVENTS[event].matched == "tool_name":
        return patterns.matches(event, matcher, names)
    return matcher in {"", "*", *names}


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


CONTRACT = Dialect(
    "Gemini CLI",
    VERSION,
    EVENTS,
    COMMON,
    ANSWERS,
    UNSUPPORTED,
    shown=gemini_call,
    tell=tell,
    matches=matches,
    read=read,
    counted=counted,
    join=join,
    parts_failures=False,
    chain=chain,
)
