"""What only Claude Code does. Codex does most of it, too.

1. Exit code 2 blocks, whatever the output says.
2. Otherwise a valid JSON object decides, with any exit code.
3. Otherwise an exit code other than 0, and broken JSON, are errors. In Claude Code they block nothing.
4. Otherwise the text is context at SessionStart and UserPromptSubmit, and is ignored elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ....errors import HookReplyError, PicohookError
from ....model.conversation import calls_of, text_of
from ....protocol.codec import load
from ..contract import HandlerAnswer, shortened
from ..output import choice, ended, flag, read_object, read_ok, table, text_field
from ..tool_results import text_in
from ..tools import server_of, shown_call
from ..vendor import BLOCK, ENDED, Vendor
from ..words import EVENT_WORDS
from .permissions import grant_of, suggested

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..contract import HandlerResult, Rule
    from ..tools import ShownCall
    from ..vendor_table import Row
    from ..words import Told


def response(call: ShownCall, text: str) -> Any:
    """A tool's result, in the shape that Claude Code gives the results of this tool."""
    path = call.input.get("file_path")
    match call.tool:
        case "Bash":
            return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
        case "Read":
            return {"type": "text", "file": {"filePath": path, "content": text}}
        case "Write" | "Edit":
            return {"filePath": path, "success": True, "content": text}
    return [{"type": "text", "text": text}] if call.tool.startswith("mcp__") else {"content": text}


def batch(told: Told) -> list[dict[str, Any]]:
    """The calls whose results are the last messages of the conversation."""
    messages, results = told.payload.messages, {}
    at = len(messages)
    while at and messages[at - 1].get("role") == "tool":
        at -= 1
        results[str(messages[at].get("tool_call_id") or "")] = text_of(messages[at])
    calls = calls_of(messages[at - 1]) if results and at else []
    shown = [(one, shown_call(one.tool, one.arguments, told.facts.cwd, told.facts.tools)) for one in calls]
    return [
        {
            "tool_name": call.tool,
            "tool_input": call.input,
            "tool_use_id": one.tool_call_id or "",
            "tool_response": response(call, results.get(one.tool_call_id or "", "")),
        }
        for one, call in shown
    ]


def request_in(answer: HandlerAnswer, inner: Mapping[str, Any]) -> HandlerAnswer:
    """The answer with its decision about a permission."""
    decision = table(inner, "decision")
    if decision is None:
        return answer
    verdict = choice(decision, "behavior", {"allow", "deny"})
    if not verdict:
        raise HookReplyError("`decision` has no `behavior`")
    return replace(
        answer,
        verdict=verdict,  # type: ignore[arg-type] # one of the words
        reason=shortened(text_field(decision, "message")),
        input=table(decision, "updatedInput"),
        permissions=decision.get("updatedPermissions"),
    )


class Claude(Vendor):
    """Claude Code."""

    words: ClassVar[Mapping[str, Callable[[Told], Any]]] = {
        **EVENT_WORDS,
        "result": lambda told: response(told.call, told.payload.result.for_llm),  # type: ignore[arg-type] # it is about a call
        "suggestions": lambda told: suggested(told.call),  # type: ignore[arg-type]
        "batch": batch,
    }

    def read(self, event: str, rule: Rule, result: HandlerResult, *, strict: bool) -> HandlerAnswer:
        row = self.events[event]
        if rule.kind == "prompt":
            return self._of_prompt(row, rule, result)
        broken: HookReplyError | None = None
        printed, answer = None, HandlerAnswer()
        try:
            printed = read_object(result.stdout, strict=strict)
            if printed is not None:
                answer = self._of_json(event, row, printed)
        except HookReplyError as error:
            printed, broken = None, error
        if result.exit_code == BLOCK and row.blocks and (strict or row.stage != "approve_tool"):
            reason = answer.reason if answer.verdict == "deny" else ""
            return replace(
                answer, verdict="deny", reason=reason or shortened(result.stderr.strip()), input=None, output=None
            )
        if broken is not None:
            raise broken
        if printed is not None:
            if strict and result.exit_code and answer.verdict in {"", "allow"} and answer.ends is None:
                raise ended(result)
            return answer
        if result.exit_code == BLOCK:
            return HandlerAnswer(message=shortened(result.stderr.strip()))
        if result.exit_code:
            raise ended(result)
        text = result.stdout.strip()
        if rule.kind == "http" and text:
            raise HookReplyError("its answer is not a JSON object")
        return self.of_text(row, text, strict=strict)

    def _of_json(self, event: str, row: Row, printed: Mapping[str, Any]) -> HandlerAnswer:
        inner = table(printed, self.inside) or {}
        blocks = choice(printed, "decision", {"approve", "block"}) == "block"
        blocks = blocks and bool(row.blocks) and row.stage != "approve_tool"
        if inner and inner.get("hookEventName") != event:
            if not blocks:
                raise HookReplyError(f"`hookSpecificOutput.hookEventName` is not {event}")
            inner = {}
        ignored = self.ignored(row, printed, inner)
        top = self.meant(self.answers, printed, row)
        writes = {"additionalContext": "context"} if blocks and row.stage == "before_tool" else row.writes
        found = self.meant({"additionalContext": "context", **writes}, inner, row)
        if blocks:
            found |= {"verdict": "deny", "reason": top["reason"]}
        top["reason"] = found.pop("reason", "") or top["reason"]
        answer = HandlerAnswer(**top, **found, ends=self.end_in(printed), ignored=ignored)
        if row.stage == "approve_tool":
            return request_in(answer, inner)
        if answer.output is not None and text_in(answer.output) is None:
            raise HookReplyError("`updatedToolOutput` does not have the shape of the tool's result")
        return answer

    def _of_prompt(self, row: Row, rule: Rule, result: HandlerResult) -> HandlerAnswer:
        """Returns the answer in a model's `{"ok": ..., "reason": ...}`.

        At PermissionRequest a refusal denies. In Claude Code it leaves the question to a person, who may not be there.
        """
        good, printed = read_ok(result.stdout)
        reason = shortened(text_field(printed, "reason"))
        if good:
            return HandlerAnswer()
        if row.stage == "before_finish":
            impossible = flag(printed, "impossible")
            return HandlerAnswer(message=reason, yields=True) if impossible else HandlerAnswer("deny", reason)
        if not row.blocks:
            return HandlerAnswer(message=reason)
        ends = None if rule.continues_on_block or row.stage == "approve_tool" else reason or ENDED
        return HandlerAnswer("deny", reason, ends=ends)

    def grant_of(self, updates: Any, call: ShownCall) -> dict[str, Any]:
        return grant_of(updates, call)

    def matcher_warning(self, matcher: str) -> str:
        names = [name.strip() for name in matcher.replace(",", "|").split("|")]
        whole = any(name.startswith("mcp__") and server_of(name) is None for name in names)
        if whole and re.fullmatch(self.lists, matcher):
            return f"{matcher} is the whole name of a tool, and no tool has it: mcp__SERVER__.* matches all tools of a server"
        return ""

    def reshaped(self, event: str, given: Mapping[str, Any], text: str) -> Any:
        if event == "PostToolUseFailure":
            raise PicohookError("a hook changed the error of this tool, and the agent cannot change errors")
        before: Any = given.get("tool_response")
        match before:
            case str():
                return text
            case [*blocks] if blocks and all(isinstance(one, dict) and one.get("type") == "text" for one in blocks):
                return [{"type": "text", "text": text}]
            case {"stdout": str(), "stderr": str()}:
                return {**before, "stdout": text, "stderr": ""}
            case {"file": {"content": str()}}:
                return {**before, "file": {**before["file"], "content": text}}
            case {"content": str()}:
                return {**before, "content": text}
        try:
            value = load(text)
        except ValueError:
            value = None
        if (
            value is None
            or type(value) is not type(before)
            or (isinstance(value, dict) and value.keys() != before.keys())
        ):
            raise PicohookError(
                f"{given['tool_name']}: a hook changed the result to a form that this tool does not return"
            )
        return value


VENDOR = Claude
