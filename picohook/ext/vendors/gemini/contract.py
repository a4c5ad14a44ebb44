"""What only Gemini CLI does.

1. JSON on stdout decides, with any exit code. If stdout is empty, stderr is read in its place.
2. Otherwise the exit code decides: with 0 the text is a message for the user, with 1 a warning, with any other the reason of a
   block.
3. Empty output blocks nothing, whatever the exit code.

In strict, exit code 2 always blocks. Any other exit code than 0 is a failure, unless the answer blocks.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ....errors import HookReplyError, PicohookError
from ....model.decisions import AbortTurn, Respond
from ..contract import GroupAnswer, HandlerAnswer, HandlerInput, shortened
from ..output import BLANK, BOM, ended, flag, loads, read_object, require_no_hidden_answer, table, text_field
from ..tools import known_name, server_of
from ..vendor import BLOCK, ENDED, UNEXPLAINED, Vendor, changed, let_pass, notes_of
from ..words import EVENT_WORDS
from .model import changed_request, selected_tools, shown_request, shown_response, text_of_response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ....model.decisions import Decision
    from ..contract import About, HandlerResult, Rule
    from ..files.handler_table import HandlerTable
    from ..vendor_table import Row
    from ..words import Told

_UNQUOTED = re.compile(
    r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(\$(?:GEMINI_PROJECT_DIR|GEMINI_CWD|CLAUDE_PROJECT_DIR|GEMINI_SESSION_ID)\b)""",
    re.DOTALL,
)
"""A part of a command that the shell does not split, or a variable that it would split."""
_OF_MODELS = frozenset({"before_llm", "after_llm"})
_KINDS = {
    "continue": bool,
    "stopReason": str,
    "systemMessage": str,
    "decision": str,
    "reason": str,
    "hookSpecificOutput": dict,
}


def _server(told: Told) -> dict[str, str] | None:
    names = server_of(told.payload.tool)
    return None if names is None else {"server_name": names[0], "tool_name": names[1]}


def _result(told: Told) -> dict[str, Any]:
    result = told.payload.result
    shown: dict[str, Any] = {"llmContent": result.for_llm, "returnDisplay": result.for_user or result.for_llm}
    if result.is_error:
        shown["error"] = {"message": told.payload.error or result.for_llm, "type": "execution_failed"}
    return shown


class Gemini(Vendor):
    """Gemini CLI."""

    words: ClassVar[Mapping[str, Callable[[Told], Any]]] = {
        **EVENT_WORDS,
        "server": _server,
        "result": _result,
        "request": lambda told: shown_request(
            told.payload.model, told.payload.messages or [], getattr(told.payload, "options", None)
        ),
        "response": lambda told: shown_response(told.payload.response),
    }

    def matches(self, row: Row, matcher: str, names: Sequence[str]) -> bool:
        """Whether a matcher matches: for tools an expression, otherwise the same word."""
        matcher = matcher.strip()
        if row.matched == "tool_name":
            return super().matches(row, matcher, names)
        return matcher in {"", "*", *names}

    def matcher_problem(self, row: Row, matcher: str) -> str:
        return super().matcher_problem(row, matcher) if row.matched == "tool_name" else ""

    def read(self, row: Row, _rule: Rule, result: HandlerResult, *, strict: bool) -> HandlerAnswer:
        read = self._strictly if strict else self._as_the_vendor
        text = next(filter(None, (text.strip(BLANK + BOM) for text in (result.stdout, result.stderr))), "")
        return read(row, text, result)

    def _strictly(self, row: Row, text: str, result: HandlerResult) -> HandlerAnswer:
        try:
            printed = read_object(_unpacked(text), strict=True)
            answer = HandlerAnswer() if printed is None else self._of_json(row, printed)
        except HookReplyError:
            if result.exit_code != BLOCK:
                raise
            printed, answer = None, HandlerAnswer()
        if result.exit_code == BLOCK and answer.verdict != "deny":
            reason = result.stderr.strip() or (text if printed is None else "")
            return replace(answer, verdict="deny", reason=shortened(reason), input=None, output=None)
        if result.exit_code and answer.verdict not in {"deny", "ask"} and answer.ends is None:
            raise ended(result)
        if printed is not None:
            return answer
        require_no_hidden_answer(text, self.answers)
        return HandlerAnswer(message=shortened(text))

    def _as_the_vendor(self, row: Row, text: str, result: HandlerResult) -> HandlerAnswer:
        try:
            printed = loads(_unpacked(text) or "null")
        except ValueError:
            if result.exit_code > 1:
                return HandlerAnswer("deny", shortened(text))
            warned = result.exit_code == 1  # a signal counts as no code
            return HandlerAnswer("allow", message=shortened(f"Warning: {text}" if warned else text))
        if not isinstance(printed, dict):
            return HandlerAnswer(failure=ended(result) if result.exit_code else None)
        kept = {name: value for name, value in printed.items() if isinstance(value, _KINDS.get(name, object))}
        if kept.get("decision") not in self.verdicts:
            kept.pop("decision", None)
        return self._of_json(row, kept)

    def _of_json(self, row: Row, printed: Mapping[str, Any]) -> HandlerAnswer:
        inner = table(printed, self.inside) or {}
        ends = None
        if row.ends and flag(printed, "continue") is False:
            ends = text_field(printed, "stopReason") or text_field(printed, "reason") or ENDED
        found = self.meant(self.answers, printed, row) | self.meant(row.writes, inner, row)
        edits = {
            name: table(inner, name) for name, part in row.writes.items() if not part and inner.get(name) is not None
        }
        ignored = self.ignored(row, printed, inner)
        if not row.ends:
            del found["verdict"]
            ignored = (*(name for name in ("continue", "decision") if name in printed), *ignored)
        return HandlerAnswer(**found, output=edits or None, ends=ends, ignored=ignored)

    def counted(self, about: About, answers: Sequence[HandlerAnswer]) -> Sequence[HandlerAnswer]:
        """The answers as Gemini CLI counts them.

        About a model only the last decision counts, and an `llm_response` only with a block. In strict all decisions count,
        and a changed input is merged into the call.
        """
        row, call = about.row, about.call
        answers = [replace(one, context=one.context.replace("<", "&lt;").replace(">", "&gt;")) for one in answers]
        if about.strict:
            before = {} if call is None else call.input
            return [one if one.input is None else replace(one, input={**before, **one.input}) for one in answers]
        if row.stage not in _OF_MODELS or not row.ends:
            return answers
        last = next((index for index in reversed(range(len(answers))) if answers[index].verdict), None)
        blocked = last is not None and answers[last].verdict == "deny"
        made = []
        for index, answer in enumerate(answers):
            output = answer.output
            if row.name == "BeforeModel" and output and not blocked:
                output = {name: edit for name, edit in output.items() if name != "llm_response"}
            made.append(replace(answer, verdict=answer.verdict if index == last else "", output=output))
        return made

    def chain(self, event: str, handler_input: HandlerInput, answer: HandlerAnswer) -> HandlerInput:
        """Returns the next handler's input: the changed call or request, or the prompt with the context."""
        stdin, call = handler_input.stdin, handler_input.call
        if answer.input is not None and call is not None:
            edited = {**call.input, **answer.input}
            call = call._replace(input=edited, given=call.arguments(edited))
            return handler_input._replace(stdin={**stdin, "tool_input": edited}, call=call)
        if event == "BeforeModel" and answer.output and "llm_request" in answer.output:
            request = {**stdin["llm_request"], **answer.output["llm_request"]}
            return handler_input._replace(stdin={**stdin, "llm_request": request})
        if event == "BeforeAgent" and answer.context:
            return handler_input._replace(stdin={**stdin, "prompt": f"{stdin['prompt']}\n\n{answer.context}"})
        return handler_input

    def join(self, about: About, answers: Sequence[HandlerAnswer]) -> GroupAnswer:
        """Returns the group's answer. Raises `HookReplyError` if changes about a model are malformed in strict."""
        row = about.row
        if row.stage not in _OF_MODELS or any(answer.ends is not None for answer in answers):
            return super().join(about, answers)
        reasons = [answer.reason for answer in answers if answer.verdict == "deny" and row.ends]
        blocked = (shortened("\n".join(filter(None, reasons))) or UNEXPLAINED) if reasons else ""
        notes = notes_of(answers)
        try:
            changes = self._changes(about, answers, blocked)
        except HookReplyError as error:
            if about.strict:
                raise
            return GroupAnswer(let_pass(notes), failures=(error,))
        if row.name == "BeforeModel" and "response" in changes:
            return GroupAnswer(Respond(changes["response"], notes=notes))
        decision: Decision = AbortTurn(blocked, notes=notes) if blocked else changed(about.payload, changes, notes)
        return GroupAnswer(decision, asks=not blocked and any(answer.verdict == "ask" for answer in answers))

    def _changes(self, about: About, answers: Sequence[HandlerAnswer], blocked: str) -> dict[str, Any]:
        """The changes of a request or a response; or the response that takes the place of both."""
        event, payload = about.row.name, about.payload
        edits: dict[str, Any] = {}
        for answer in answers:
            edits |= answer.output or {}
        if event == "BeforeToolSelection":
            configs = [answer.output["toolConfig"] for answer in answers if answer.output]
            return selected_tools(configs, payload, lambda tool: self.own_name(known_name(tool, {})))
        if event == "AfterModel" and blocked:
            return {}
        text = text_of_response(edits["llm_response"]) if "llm_response" in edits else None
        if text is not None:
            before = payload.response if event == "AfterModel" else {}
            return {"response": {**before, "content": text}}
        if event == "AfterModel" or blocked:
            return {}
        request = {**about.input.stdin["llm_request"], **edits.get("llm_request", {})}
        return changed_request(request, payload.model, payload.messages, payload.options)

    def command(self, table: HandlerTable) -> dict[str, Any]:
        """The command for bash, with quotes around the variables of directories. Gemini CLI replaces them with quoted paths."""
        text = _UNQUOTED.sub(lambda found: f'"{found[1]}"' if found[1] else found[0], table.command)
        return super().command(table.model_copy(update={"command": text}))

    def changed_input(self, given: Mapping[str, Any], changed: Mapping[str, Any]) -> Mapping[str, Any]:
        if not (given.get("tool_input") or {}).keys() <= changed.keys():
            raise PicohookError("a hook removed an argument, and Gemini CLI may keep it: let the hook deny the call")
        return changed


def _unpacked(text: str) -> str:
    """The text inside a JSON string; any other text as it is."""
    try:
        inner = loads(text) if text.startswith('"') else text
    except ValueError:
        return text
    return inner.strip(BLANK + BOM) if isinstance(inner, str) else text


VENDOR = Gemini
