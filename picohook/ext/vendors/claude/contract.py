"""What only Claude Code does. Codex does most of it, too.

1. Exit code 2 blocks, whatever the output says.
2. Otherwise a valid JSON object decides, with any exit code.
3. Otherwise an exit code other than 0, and broken JSON, are errors. In Claude Code they block nothing.
4. Otherwise the text is context at SessionStart and UserPromptSubmit, and is ignored elsewhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from ....errors import HookReplyError, PicohookError
from ....model.conversation import calls_of, text_of
from ....protocol.codec import load
from ..contract import HandlerAnswer, HandlerResult, Rule, shortened
from ..output import choice, ended, flag, read_object, read_ok, table, text_field
from ..tools import ShownCall, shown_call, text_in
from ..vendor import BLOCK, ENDED, Vendor
from ..vendor_table import Row
from ..words import EVENT_WORDS, Told

_SCOPES = {"session": "session", "localSettings": "project", "projectSettings": "project"}
_PATHS = ("file_path", "notebook_path")
ANYTHING = "anything"


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
    shown = [(one, shown_call(one.tool, one.arguments, told.facts.project, told.facts.tools)) for one in calls]
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


def suggested(call: ShownCall) -> list[dict[str, Any]]:
    """The updates that a handler is offered: exactly this command or file, for the session."""
    exact = next((call.input[name] for name in ("command", *_PATHS) if isinstance(call.input.get(name), str)), None)
    if exact is None or any(letter in exact for letter in "*()"):
        return []
    rule = {"toolName": call.tool, "ruleContent": exact}
    return [{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}]


def _grant_of(updates: Any, call: ShownCall) -> dict[str, Any]:
    """Returns the grant that says the same as these permission updates, "always allow". Raises `ValueError` if none does."""
    if not (isinstance(updates, list) and len(updates) == 1 and isinstance(updates[0], dict)):
        raise ValueError("a grant is one update")
    (update,) = updates
    if (update.get("type"), update.get("behavior")) != ("addRules", "allow"):
        raise ValueError("a grant can only add rules that allow")
    scope = _SCOPES.get(str(update.get("destination")))
    if scope is None:
        raise ValueError(f"a grant cannot hold in {update.get('destination')}")
    rules = update.get("rules")
    if not (isinstance(rules, list) and len(rules) == 1 and isinstance(rules[0], dict)):
        raise ValueError("a grant has one rule")
    if rules[0].get("toolName") != call.tool:
        raise ValueError("a grant is for the tool of the call")
    like = _like(rules[0].get("ruleContent"), call.input)
    return {"for": scope, "like": {call.fields.get(name, name): shape for name, shape in like.items()}}


def _like(content: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The shapes of the arguments for which a rule's text holds."""
    anything = dict.fromkeys(arguments, ANYTHING)
    if content is None:
        return anything
    if not isinstance(content, str):
        raise ValueError("a rule's text is a string")
    command, path = arguments.get("command"), next((name for name in _PATHS if name in arguments), None)
    if isinstance(command, str):
        if content.endswith(":*") and "*" not in content[:-2]:
            return anything | {"command": {"starts": content[:-2].split()}}
        if content == command:
            return {name: shape for name, shape in anything.items() if name != "command"}
    elif path is not None:
        if content.endswith("/**") and "*" not in content[:-3] and not content.startswith("/"):
            return anything | {path: {"under": content[:-3]}}
        if content == arguments[path]:
            return {name: shape for name, shape in anything.items() if name != path}
    raise ValueError(f"a grant cannot say {content!r}")


class Claude(Vendor):
    """Claude Code."""

    words: ClassVar[Mapping[str, Callable[[Told], Any]]] = {
        **EVENT_WORDS,
        "result": lambda told: response(told.call, told.payload.result.for_llm),  # type: ignore[arg-type] # it is about a call
        "suggestions": lambda told: suggested(told.call),  # type: ignore[arg-type]
        "batch": batch,
    }

    def read(self, row: Row, rule: Rule, result: HandlerResult, *, strict: bool) -> HandlerAnswer:
        if rule.kind == "prompt":
            return self._of_prompt(row, rule, result)
        broken: HookReplyError | None = None
        printed, answer = None, HandlerAnswer()
        try:
            printed = read_object(result.stdout, strict=strict)
            if printed is not None:
                answer = self._of_json(row, printed)
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

    def _of_json(self, row: Row, printed: Mapping[str, Any]) -> HandlerAnswer:
        inner = table(printed, self.inside) or {}
        blocks = choice(printed, "decision", {"approve", "block"}) == "block"
        blocks = blocks and bool(row.blocks) and row.stage != "approve_tool"
        if inner and inner.get("hookEventName") != row.name:
            if not blocks:
                raise HookReplyError(f"`hookSpecificOutput.hookEventName` is not {row.name}")
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
        try:
            return _grant_of(updates, call)
        except ValueError as error:
            raise HookReplyError(f"`decision.updatedPermissions` counts for nothing: {error}") from None

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
