"""What only Cursor does.

1. Exit code 2 is a denial, whatever the output says.
2. With exit code 0, the output is one JSON object, or nothing.
3. Everything else is a failure. In Cursor, a failure blocks only if the handler has `failClosed`.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ....errors import HookReplyError
from ....protocol.codec import load
from ..contract import About, HandlerAnswer, HandlerResult, Rule, shortened
from ..output import choice, ended, flag, read_object, read_ok, table, text_field
from ..vendor import BLOCK, Vendor
from ..vendor_table import Row
from ..words import EVENT_WORDS, Told

_SERVED = "MCP:"


def _given(told: Told, *names: str) -> Any:
    """The first of these fields of a call that it has; empty without one."""
    assert told.call is not None
    return next((told.call.input[name] for name in names if told.call.input.get(name)), "")


def _line(told: Told) -> str:
    """A command as one line, as a shell would take it."""
    command = _given(told, "command")
    return shlex.join(map(str, command)) if isinstance(command, list) else str(command)


def _result(told: Told) -> str:
    """A tool's result as JSON, in the shape that Cursor gives the results of this tool."""
    assert told.call is not None
    text = told.payload.result.for_llm
    if told.call.tool == "Shell":
        return json.dumps({"exitCode": 0, "stdout": text})
    served = told.call.tool.startswith(_SERVED)
    return json.dumps({"content": [{"type": "text", "text": text}] if served else text})


class Cursor(Vendor):
    """Cursor."""

    words: ClassVar[Mapping[str, Callable[[Told], Any]]] = {
        **EVENT_WORDS,
        "roots": lambda told: [told.facts.project],
        "line": _line,
        "path": lambda told: str(_given(told, "file_path")),
        "json_result": _result,
        "edits": lambda told: [
            {"old_string": _given(told, "old_string"), "new_string": _given(told, "content", "new_string")}
        ],
        "served_tool": lambda told: told.call and told.call.tool.removeprefix(_SERVED),
        "json_input": lambda told: told.call and json.dumps(told.call.input),
    }

    def can_block(self, row: Row) -> bool:
        return row.gate

    def read(self, row: Row, rule: Rule, result: HandlerResult, *, strict: bool) -> HandlerAnswer:
        if rule.kind == "prompt":
            good, printed = read_ok(result.stdout)
            reason = shortened(text_field(printed, "reason"))
            if good:
                return HandlerAnswer()
            return HandlerAnswer("deny", reason) if row.gate else HandlerAnswer(message=reason)
        if result.exit_code == BLOCK and row.gate:
            try:
                said = self._of_json(row, read_object(result.stdout, strict=strict) or {}, strict=strict)
            except HookReplyError:
                said = HandlerAnswer()
            return HandlerAnswer("deny", said.reason or shortened(result.stderr.strip()), message=said.message)
        if result.exit_code:
            raise ended(result)
        answer = read_object(result.stdout, strict=strict)
        if answer is None and result.stdout.strip():
            raise HookReplyError("it printed text, and only a JSON object is an answer")
        return self._of_json(row, answer or {}, strict=strict)

    def _of_json(self, row: Row, answer: Mapping[str, Any], *, strict: bool) -> HandlerAnswer:
        printed = {
            self.renamed.get(name, name): value
            for name, value in answer.items()
            if self.renamed.get(name) not in answer
        }
        verdict = choice(printed, "permission", self.verdicts) if row.gate else ""
        goes_on = flag(printed, "continue")
        if row.name == "beforeSubmitPrompt":
            verdict = "deny" if goes_on is False or (verdict == "deny" and strict) else ""
        elif strict and goes_on is False and not verdict:
            verdict = "deny"
        if verdict == "ask" and row.name == "subagentStart":
            verdict = "deny"
        if verdict == "ask" and row.name == "preToolUse" and not strict:
            verdict = ""
        follow_up = text_field(printed, "followup_message") if "followup_message" in row.writes else ""
        for_user = shortened(text_field(printed, "user_message"))
        reason = shortened(follow_up or text_field(printed, "agent_message")) or for_user
        env = table(printed, "env") or {} if "env" in row.writes else {}
        if any(
            type(value) is not str or not name or "=" in name or "\0" in name + value for name, value in env.items()
        ):
            raise HookReplyError("`env` is not an object of texts")
        return HandlerAnswer(
            verdict="deny" if follow_up else verdict,  # type: ignore[arg-type] # one of the words
            reason=reason,
            message=for_user if verdict in {"deny", "ask"} or row.name == "preCompact" else "",
            env=env,
            ignored=tuple(name for name in printed if name not in {*self.answers, *row.writes}),
            **self.meant(row.writes, printed, row),
        )

    def counted(self, about: About, answers: Sequence[HandlerAnswer]) -> Sequence[HandlerAnswer]:
        """The answers: at the end of a turn, without those of handlers at their limit; outputs count for servers' tools."""
        count, call = about.input.stdin.get("loop_count", -1), about.call
        served = call is not None and call.tool.startswith(_SERVED)
        return [
            replace(
                one,
                verdict="" if one.most_blocks is not None and count >= one.most_blocks else one.verdict,
                output=one.output if served else None,
            )
            for one in answers
        ]

    def reshaped(self, _event: str, given: Mapping[str, Any], text: str) -> Any:
        """A tool's output as JSON: the JSON in the text, or a block with the text. None if it is not a server's tool."""
        if not str(given.get("tool_name", "")).startswith(_SERVED):
            return None
        try:
            return load(text)
        except ValueError:
            return {"content": [{"type": "text", "text": text}]}


VENDOR = Cursor
