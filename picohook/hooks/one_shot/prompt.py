"""A hook that asks a model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import anyio

from ...errors import HookError, HookReplyError, HookTimeoutError, PicohookError
from ...wire.text import explain, show
from ..function import THREADS, call
from . import jcli_contract as jcli
from .hook import OneShotHook, read_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..base import HostServices

_VARIABLE = re.compile(r"\{\{(" + "|".join(jcli.VARIABLES) + r")\}\}")

_FORMAT = """

---
You decide as a hook of an AI agent, at its event {event}. Answer with one JSON object and nothing else: no code fence, no \
other words. {{}} means: all is well, continue. Otherwise use those of these fields that you need:
{fields}"""

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


def render(template: str, context: Mapping[str, Any]) -> str:
    """The template with its variables filled in. Braces in a value are kept as text. A missing value is empty."""
    return _VARIABLE.sub(lambda found: str(context.get(found[1], "")), template)


def instruction(event: str) -> str:
    """The instruction for a model about the form of its answer."""
    names = ["approved", "reason"]
    if event != "approve_tool":
        names = [*jcli.EDITS.get(event, ()), "action", "retry_feedback", *jcli.NOTES]
        if event not in _WITH_FEEDBACK:
            names.remove("retry_feedback")
    meanings = {**_MEANINGS, **_OTHERWISE.get(event, {})}
    return _FORMAT.format(event=event, fields="\n".join(f'"{name}": {meanings[name]}' for name in names))


def extract(text: str) -> dict[str, Any]:
    """The result in a model's answer: the JSON object from its first `{` to its last `}`. Raises `ValueError`."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        shown = show(text.encode("utf-8", "replace"), 80) or "it is empty"
        raise ValueError(f"the model's answer holds no JSON object: {shown}")
    return read_result(text[start : end + 1].encode())


class PromptHook(OneShotHook):
    """Fills in its prompt and sends it to the host's `complete`. The answer has the result, by j-cli's contract.

    An answer whose fields all have no meaning is a failure, unless the hook comes from a j-cli file.
    """

    contract = jcli

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._threads = anyio.CapacityLimiter(THREADS)

    async def answer(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        complete = None if self._host.model_of is None else self._host.model_of(self.spec)
        if complete is None:  # mounting the hook requires a model, but a reload may have removed it since
            raise HookError("there is no model to ask: name one in [model] of the configuration", hook=self.name)
        prompt = render(self.spec.prompt or "", context) + instruction(event)
        with anyio.CancelScope(deadline=deadline) as scope:
            try:
                text = await call(complete, prompt, self.spec.model, threads=self._threads)
            except PicohookError:
                raise
            except Exception as error:
                raise HookError(f"the model could not be asked: {explain(error)}", hook=self.name) from error
        if scope.cancelled_caught:
            raise HookTimeoutError("no answer in time", hook=self.name)
        if not isinstance(text, str):
            raise HookReplyError(f"`complete` returned {type(text).__name__}, not a text", hook=self.name)
        result = extract(text)
        if not isinstance(self.spec, jcli.JcliSpec):
            jcli.require_known(event, result)
        return result
