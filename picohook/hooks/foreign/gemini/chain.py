"""What the next of Gemini CLI's handlers reads, where they run one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..contract import Answer, Told


def chain(event: str, told: Told, answer: Answer) -> Told:
    """What the next handler is told after this answer: the changed call or request, or the prompt with the context."""
    stdin = told.stdin
    if event == "BeforeTool" and answer.input is not None and told.call is not None:
        changed = {**told.call.input, **answer.input}
        call = told.call._replace(input=changed, given=told.call.arguments(changed))
        return told._replace(stdin={**stdin, "tool_input": changed}, call=call)
    if event == "BeforeModel" and isinstance(answer.output, dict) and "llm_request" in answer.output:
        return told._replace(stdin={**stdin, "llm_request": {**stdin["llm_request"], **answer.output["llm_request"]}})
    if event == "BeforeAgent" and answer.context:
        return told._replace(stdin={**stdin, "prompt": f"{stdin['prompt']}\n\n{answer.context}"})
    return told
