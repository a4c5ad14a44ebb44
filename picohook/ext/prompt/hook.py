"""A hook that asks a model."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
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

_ANSWERS = tomllib.loads(Path(__file__).with_name("answers.toml").read_text(encoding="utf-8"))
"""The meanings of an answer's fields: those for all events, and those that an event has in their place."""
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
    meanings = {**_ANSWERS["all"], **_ANSWERS.get(event, {})}
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
