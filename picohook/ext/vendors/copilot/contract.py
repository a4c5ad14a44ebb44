"""What only GitHub Copilot's CLI and its cloud agent do.

Most events have two names. With the first, in camelCase, handlers read Copilot's own fields and tools. With the second, in
PascalCase, they read fields in snake_case, and the names that Claude Code has for tools.

1. Lines that report progress do not count. The other lines are one JSON object, or nothing.
2. Any exit code other than 0 is a denial at `preToolUse`, and exit code 2 at `permissionRequest`, whatever the output says.
3. A timeout, an HTTP error, and an exit code elsewhere are failures. In Copilot they deny nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from ....errors import HookReplyError, HookTimeoutError
from ..contract import HandlerAnswer, shortened
from ..output import BLANK, BOM, ended, flag, object_in, read_object, require_no_hidden_answer, table, text_field
from ..patterns import javascript
from ..vendor import BLOCK, Vendor
from ..words import EVENT_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ....errors import HookError
    from ..contract import About, HandlerInput, HandlerResult, Rule
    from ..files.handler_table import HandlerTable
    from ..vendor_table import Row
    from ..words import Told

INNER = "hookSpecificOutput"
"""The table whose fields count at the events in PascalCase, as in Claude Code."""
BYPASS = "requestSandboxBypass"
"""With this argument, a call asks to leave the sandbox. A hook cannot allow that: its allow counts as no answer."""
_PASCAL = {"agentStop": "Stop", "userPromptSubmitted": "UserPromptSubmit"}
"""The PascalCase names that are not the same word. A prompt that is transformed has none."""
_SNAKE = {"toolArgs": "tool_input", "response": "last_assistant_message", "stop_hook_active": "stop_hook_active"}
"""The names of fields in PascalCase events that are not the same word."""
_WORDS_IN_PASCAL = {"$tool": "$claude_tool", "$result": "$snake_result", "$now_ms": "$now"}
_NAMES = re.compile(r"[\w-]+(\|[\w-]+)*", re.ASCII)
"""A matcher of Claude Code's form that is a list of names."""
_NOT_RUN = frozenset({126, 127})
"""The exit codes of a shell that cannot run a program."""


def snake(field: str) -> str:
    """The name of a field in PascalCase events."""
    return _SNAKE.get(field) or re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", field)


def _in_snake(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {snake(name): _WORDS_IN_PASCAL.get(str(word), word) for name, word in fields.items()}


def is_pascal(event: str) -> bool:
    """Whether this is the PascalCase name of an event."""
    return event[0].isupper()


def _result(told: Told) -> dict[str, str]:
    return {"resultType": "success", "textResultForLlm": told.payload.result.for_llm}


class Copilot(Vendor):
    """GitHub Copilot."""

    words: ClassVar[Mapping[str, Callable[[Told], Any]]] = {
        **EVENT_WORDS,
        "claude_tool": lambda told: told.call and told.vendor.claude_name(told.call.tool),
        "now_ms": lambda told: int(datetime.fromisoformat(told.facts.now).timestamp() * 1000) if told.facts.now else 0,
        "result": _result,
        "snake_result": lambda told: _in_snake(_result(told)),
        "raised": lambda told: {"message": str(told.payload.payload.get("Message") or ""), "name": "Error"},
    }

    @model_validator(mode="before")
    @classmethod
    def _with_pascal(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """The table with a row for the second name of each event, after that for the first."""
        events: dict[str, Any] = {}
        for event, row in raw["events"].items():
            events[event] = row
            if event == "userPromptTransformed":
                continue
            reads, unsupported = row.get("reads", {}), row.get("unsupported", {})
            differs = {snake(name) if name in reads else name: why for name, why in unsupported.items()}
            if "toolName" in reads:
                if event not in {"preToolUse", "permissionRequest"}:
                    differs["tool_name"] = "it is Claude Code's name for the tool, at all events"
                differs["tool_input"] = "it has the fields of Copilot's tools, such as path and file_text"
            reads = {"hook_event_name": "$event", **_in_snake(reads)} if "why" not in row else {}
            more = {"matched": snake(row.get("matched", "")), "reads": reads, "unsupported": differs, "on_failure": ""}
            events[_PASCAL.get(event, event[0].upper() + event[1:])] = {**row, **more}
        return {**raw, "events": events}

    def claude_name(self, tool: str) -> str:
        """Claude Code's name for one of Copilot's tools."""
        return self.more_tools.get(tool) or next((name for name, own in self.tools.items() if own == tool), tool)

    def read_at(self, event: str) -> dict[str, Any]:
        fields = super().read_at(event)
        return _in_snake(fields) if is_pascal(event) else fields

    def names(self, row: Row, name: str, handler_input: HandlerInput) -> Sequence[str]:
        call = handler_input.call
        if call is None or not is_pascal(row.name):
            return (name,)
        return (name, call.tool, *self.earlier_names.get(call.tool, ()))

    def matches(self, row: Row, matcher: str, names: Sequence[str]) -> bool:
        """Whether a list has one of the names, or an expression matches the whole of the first name."""
        if is_pascal(row.name):
            matcher = matcher.strip(BLANK + BOM)
        if matcher in {"", "*", "**"}:
            return True
        if _NAMES.fullmatch(matcher):
            return not set(matcher.split("|")).isdisjoint(names)
        return javascript(matcher, whole=True).matches(names[0])

    def failed(self, row: Row, rule: Rule, result: HandlerResult, error: HookError) -> HandlerAnswer:
        at_tool = row.stage == "before_tool"
        if not at_tool or rule.kind != "command" or isinstance(error, HookTimeoutError | HookReplyError):
            return HandlerAnswer(failure=error)
        is_own = result.failure is None and result.exit_code > 0 and result.exit_code not in _NOT_RUN
        return HandlerAnswer("deny", f"the hook failed: {error}", failure=None if is_own else error)

    def read(self, row: Row, _rule: Rule, result: HandlerResult, *, strict: bool) -> HandlerAnswer:
        blocks = result.exit_code == BLOCK
        text = without_progress(result.stdout)
        if blocks and row.stage in {"before_tool", "approve_tool"}:
            stderr = result.stderr.strip() if row.stage == "before_tool" else ""
            return HandlerAnswer("deny", _reason(text) or shortened(stderr))
        if blocks and row.results == "failed":
            printed = object_in(text)
            return HandlerAnswer(
                context=shortened(text if printed is None else text_field(printed, "additionalContext"))
            )
        is_prompt = row.gate and row.stage == "before_prompt"
        printed = object_in(text.strip(BLANK + BOM)) if is_prompt else None
        if blocks and printed is None and not strict:
            return HandlerAnswer(message=shortened(result.stderr.strip()))
        if result.exit_code and not (blocks and printed is not None):
            raise ended(result)
        if not row.writes:
            return HandlerAnswer()
        printed = read_object(text, strict=strict)
        if printed is None:
            if strict:
                require_no_hidden_answer(text, {INNER, *row.writes})
            return HandlerAnswer()
        counting = _counting(printed) if is_pascal(row.name) else {**printed, "updatedInput": None}
        return self._of_json(row, counting, is_prompt=is_prompt)

    def _of_json(self, row: Row, printed: Mapping[str, Any], *, is_prompt: bool) -> HandlerAnswer:
        at_tool = row.stage == "before_tool"
        if at_tool and printed.get("permissionDecision") == "deny":  # whatever else is wrong
            why = printed.get("permissionDecisionReason")
            return HandlerAnswer("deny", shortened(why) if isinstance(why, str) else "")
        known = {INNER, "hookEventName", "updatedInput", *row.writes}
        ignored = tuple(name for name in printed if name not in known)
        if is_prompt:
            why = printed.get("reason")
            if printed.get("decision") == "block" and isinstance(why, str):
                return HandlerAnswer("deny", shortened(why), ignored=ignored)
            return HandlerAnswer(ignored=ignored)
        answer = HandlerAnswer(**self.meant(row.writes, printed, row), ignored=ignored)
        if at_tool:
            given = "modifiedArgs" in printed
            edited = printed["modifiedArgs"] if given else printed.get("updatedInput")
            if not isinstance(edited, dict) and (given or edited is not None):
                return HandlerAnswer("deny", "the changed arguments are not an object")
            return replace(answer, input=edited)
        if "modifiedTransformedPrompt" in row.writes:
            return replace(answer, output=text_field(printed, "modifiedTransformedPrompt") or None)
        result = table(printed, "modifiedResult") if "modifiedResult" in row.writes else None
        if "interrupt" in row.writes:
            flag(printed, "interrupt")
        return answer if result is None else replace(answer, output=text_field(result, "textResultForLlm"))

    def counted(self, about: About, answers: Sequence[HandlerAnswer]) -> Sequence[HandlerAnswer]:
        """The answers as Copilot counts them: about a permission, the last decision. In strict, any denial counts."""
        if about.row.stage != "approve_tool":
            return answers
        bypasses = about.call is not None and about.call.input.get(BYPASS) is True
        counted = [replace(one, verdict="") if bypasses and one.verdict == "allow" else one for one in answers]
        if about.strict:
            return counted
        last = next((one for one in reversed(counted) if one.verdict), None)
        return [one if one is last else replace(one, verdict="") for one in counted]

    def command(self, table: HandlerTable) -> dict[str, Any]:
        return super().command(table if table.program else table.model_copy(update={"args": None}))

    def plugin_of(self, path: Path, project: Path | None) -> Path | None:
        owner = path.parent.parent
        if project is not None or path.name != "hooks.json" or owner.name == ".copilot":
            return None
        return owner if path.parent.name == "hooks" else path.parent

    def reshaped(self, _event: str, given: Mapping[str, Any], text: str) -> Any:
        before = given.get("toolResult")
        return {**(before if isinstance(before, dict) else {}), "textResultForLlm": text}


def _counting(printed: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that count at an event in PascalCase. The inner ones come first. Each way to change a call has its place."""
    inner = {name: value for name, value in (table(printed, INNER) or {}).items() if value is not None}
    inner.pop("modifiedArgs", None)
    return {**printed, "updatedInput": None, **inner}


def without_progress(stdout: str) -> str:
    """The output without the lines that only report progress. An object alone is the answer, whatever it reports."""
    if object_in(stdout.strip(BLANK + BOM)) is not None:
        return stdout
    return "\n".join(line for line in stdout.splitlines() if not _is_progress(line.strip())).strip()


def _is_progress(line: str) -> bool:
    printed = object_in(line) if line.startswith("{") and '"progress"' in line else None
    return printed is not None and printed.get("type") == "progress"


def _reason(text: str) -> str:
    """The reason in the output of a handler that denies by its exit code."""
    printed = object_in(text) or {}
    found = printed.get("permissionDecisionReason") or printed.get("message") or printed.get("reason")
    return shortened(found) if isinstance(found, str) else ""


VENDOR = Copilot
