"""A hook that asks a model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...hooks.command import OneShotHook
from ...protocol.codec import encode
from ..jcli import contract as jcli
from .model import ModelOfHook, problem_with_model
from .model_prompt import ModelPrompt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...errors import Problem
    from ...hooks.base import HostServices
    from .spec import PromptSpec

_VARIABLE = re.compile(r"\{\{(" + "|".join(jcli.VARIABLES) + r")\}\}")
_STANDS_FOR = (
    "A name in double braces stands for the field of that name in the data, and for nothing if the data lack it."
)
_FORM = "The nonce alone means: all is well, continue. Otherwise add those of these fields that you need:\n"

_MEANINGS = {
    "user_input": "string: replaces the user's message",
    "assistant_output": "string: replaces the assistant's answer",
    "messages": "list of {role, content}: replaces all messages",
    "system_prompt": "string: replaces the system prompt",
    "tool_arguments": "string, itself a JSON object: replaces the tool's arguments",
    "tool_result": "string: replaces the tool's result",
    "tool_error": "string: replaces the tool's error",
    "approved": "true or false: whether the tool may run; without it, it may not",
    "reason": "string: why not",
    "action": '"stop": end this turn',
    "retry_feedback": 'string, with "stop": not the end, but another round in which the assistant is told this',
    "inject_messages": "list of {role, content}: added after the messages",
    "additional_context": "string: added to the system prompt",
    "system_message": "string: shown to the user",
}
_OTHERWISE = {
    "pre_tool_execution": {
        "action": '"skip": do not run this tool; or "stop": end this turn',
        "retry_feedback": 'string, with "skip": why, for the assistant',
    },
    "pre_micro_compact": {"action": '"stop": do not compact'},
    "pre_auto_compact": {"action": '"stop": do not compact'},
}
_WITH_FEEDBACK = {"pre_send_message", "pre_llm_request", "post_llm_response", "pre_tool_execution", "stop"}
_SHAPES = {"messages": "messages", "inject_messages": "messages", "approved": "boolean"}
"""The shapes of the fields that are not strings."""


def prompt_for(event: str, template: str, context: Mapping[str, Any]) -> ModelPrompt:
    """The question to a model about an event. The fields of the context that the template names are its data."""
    names = ["approved", "reason"]
    if event != "approve_tool":
        names = [*jcli.EDITS.get(event, ()), "action", "retry_feedback", *jcli.NOTES]
        if event not in _WITH_FEEDBACK:
            names.remove("retry_feedback")
    meanings = {**_MEANINGS, **_OTHERWISE.get(event, {})}
    form = _FORM + "\n".join(f'"{name}": {meanings[name]}' for name in names)
    data = {name: context[name] for name in _VARIABLE.findall(template) if name in context}
    fields = {name: _SHAPES.get(name, "string") for name in names}
    return ModelPrompt.make(
        template, encode(data).decode(), event=event, stands_for=_STANDS_FOR, form=form, fields=fields
    )


class PromptHook(OneShotHook):
    """Sends its prompt to the host's `complete`. The answer has the result, by j-cli's contract.

    An answer that may be a refusal in other words is a failure, also from a j-cli file.
    """

    contract = jcli
    spec: PromptSpec

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._model = ModelOfHook(self.spec, host)

    def problem(self, host: HostServices) -> Problem | None:
        return problem_with_model(self.spec, host)

    async def answer(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        prompt = prompt_for(event, self.spec.prompt, context)
        result = await self._model.ask(self.spec, prompt, self.spec.model, deadline)
        jcli.require_known(event, result)
        return result
