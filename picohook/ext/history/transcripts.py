"""The transcripts of each agent. No vendor promises its format: what is not known is left out."""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ..vendors.tools import shown_call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T", str, list[Any], dict[str, Any])

_TEXT = 4000
"""The characters of a result that are kept."""
_EDGE = 200
"""The characters at an end of a result in which an exit code is looked for."""


OUTCOMES = ("succeeded", "failed", "denied", "unknown")


@dataclass(slots=True)
class PastCall:
    """One tool call."""

    agent: str
    session: str
    id: str
    tool: str
    """The name that hooks see."""
    arguments: dict[str, Any]
    """As the model gave them, but in Gemini CLI's transcripts as hooks left them."""
    at: float = 0.0
    """Seconds since 1970; 0 if the transcript does not say."""
    cwd: str = ""
    way: str = "main"
    """The way to the call: `main` or `subagent`, and `+mcp` for a tool of an MCP server."""
    outcome: str = "unknown"
    """One of `OUTCOMES`."""
    text: str = ""
    """The beginning of the result."""


class Transcript:
    """One file while it is read."""

    agent: ClassVar[str]
    marks: ClassVar[tuple[bytes, ...]] = ()
    """Only lines with one of these are decoded; without any, all are."""
    places: ClassVar[tuple[str, ...]]
    """Globs below the agent's directory."""
    home: ClassVar[tuple[str, str]]
    """The environment variable with the agent's directory, and the directory below the home without it."""
    refused: ClassVar[re.Pattern[str]] = re.compile("(?!)")
    """How the text of a result begins if the call was denied."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.session = os.path.splitext(os.path.basename(path))[0]
        self.cwd = ""
        self.way = "main"
        self.open: dict[str, PastCall] = {}
        """Calls without a result so far, by id."""

    @classmethod
    def roots(cls) -> Sequence[str]:
        """Returns the directories of this agent."""
        variable, usual = cls.home
        return [os.environ.get(variable) or os.path.expanduser(f"~/{usual}")]

    @classmethod
    def files(cls) -> list[str]:
        """Returns all transcripts, each once."""
        found = (
            os.path.realpath(path)
            for root in cls.roots()
            for place in cls.places
            for path in glob.iglob(os.path.join(glob.escape(root), place), recursive=True, include_hidden=True)
        )
        return list(dict.fromkeys(found))

    def wants(self, line: bytes) -> bool:
        """Whether a line may have something of a call, or is damaged."""
        return any(mark in line for mark in self.marks) or not self.marks or line[:1] != b"{" or line[-2:] != b"}\n"

    def identity(self, call: PastCall) -> tuple[str, ...]:
        """Returns what is the same for each copy of a call."""
        return (call.id,)

    def take(self, line: dict[str, Any]) -> Iterator[PastCall]:
        """Takes a record. Yields the calls that have ended by it."""
        raise NotImplementedError

    def left(self) -> Iterator[PastCall]:
        """Yields the calls without a result, at the end of the file."""
        yield from self.open.values()

    def begin(self, number: str, tool: str, arguments: Any, *, at: Any, cwd: str = "", way: str = "") -> PastCall:
        """Returns a call as hooks see it, and keeps it until its result comes."""
        place = cwd or self.cwd
        given = arguments if isinstance(arguments, dict) else {"input": arguments}
        call = shown_call(tool or "?", given, place, {})
        mcp = tool.startswith("mcp_") or "mcp" in way
        route = (way or self.way).removesuffix("+mcp") + ("+mcp" if mcp else "")
        made = PastCall(self.agent, self.session, number, call.tool, call.input, seconds_of(at), place, route)
        self.open[number] = made
        return made

    def end(self, number: str, outcome: str, result: Any) -> Iterator[PastCall]:
        """Yields the call with this id, with its outcome."""
        call = self.open.pop(number, None)
        if call is not None:
            call.text = text_of(result)[:_TEXT]
            denied = outcome == "failed" and self.refused.search(call.text[:500])
            call.outcome = "denied" if denied else outcome
            yield call


class Claude(Transcript):
    """Claude Code: a line for each content block. Results come in any order."""

    agent = "claude"
    marks = (b'"tool_use"', b'"tool_result"')
    home = "CLAUDE_CONFIG_DIR", ".claude"
    places = ("projects/*/*.jsonl", "projects/*/*/subagents/*.jsonl")
    refused = re.compile(
        r"hook error|blocked by hook|^Permission to use|^Claude requested permissions|^The user doesn't want|hook denied"
    )

    @classmethod
    def roots(cls) -> Sequence[str]:
        further = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        return [*super().roots(), os.path.join(further, "claude")]

    def take(self, line: dict[str, Any]) -> Iterator[PastCall]:
        self.session = _at(line, "sessionId", str) or self.session
        for block in _at(line, "message.content", list):
            kind, number = _at(block, "type", str), _at(block, "id", str)
            if kind == "tool_use" and line.get("type") == "assistant" and number not in self.open:
                way = "subagent" if line.get("agentId") or line.get("isSidechain") else "main"
                tool, given, cwd = _at(block, "name", str), block.get("input"), _at(line, "cwd", str)
                self.begin(number, tool, given, at=line.get("timestamp"), cwd=cwd, way=way)
            elif kind == "tool_result":
                refused = line.get("toolDenialKind") or _at(line, "toolUseResult.toolDenialKind", str)
                outcome = "denied" if refused else "failed" if block.get("is_error") is True else "succeeded"
                yield from self.end(_at(block, "tool_use_id", str), outcome, block.get("content"))


class Codex(Transcript):
    """Codex: items, flat in old versions, and since 0.40 in an envelope."""

    agent = "codex"
    home = "CODEX_HOME", ".codex"
    marks = (b"_call", b'"session_meta"', b'"turn_context"', b'"item_completed"', b'"instructions"')
    places = tuple(
        f"{folder}.jsonl{end}" for folder in ("sessions/**/*", "archived_sessions/*") for end in ("", ".zst")
    )
    refused = re.compile(
        r"blocked by PreToolUse hook|^aborted by user|approval policy is|rejected by user|^patch rejected"
    )

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._known = False
        self._codes: dict[str, bool] = {}
        """Whether the call with this id has failed, by the event about its end."""

    def identity(self, call: PastCall) -> tuple[str, ...]:
        return call.id, json.dumps(call.arguments, sort_keys=True)

    def take(self, line: dict[str, Any]) -> Iterator[PastCall]:
        item = _at(line, "payload", dict) or line
        kind, number = item.get("type"), _at(item, "call_id", str)
        if line.get("type") in {"session_meta", "turn_context"}:
            kind = line["type"]
        if kind == "session_meta" or (not self._known and "instructions" in line and "id" in line):
            if not self._known:  # a fork's file has its parent's, too
                self._known = True
                self.session = _at(item, "session_id", str) or _at(item, "id", str) or self.session
                self.cwd = _at(item, "cwd", str)
                self.way = "subagent" if "subagent" in _at(item, "source", dict) else "main"
        elif kind == "turn_context":
            self.cwd = _at(item, "cwd", str) or self.cwd
        elif kind in {"function_call", "custom_tool_call", "local_shell_call"}:
            self._begin(number, item, line.get("timestamp"))
        elif kind in {"function_call_output", "custom_tool_call_output"}:
            failed = self._codes.pop(number, False)
            text = text_of(item.get("output"))
            # At the beginning, or in a JSON text at the end: the rest is the program's own output.
            code = _EXIT_CODE.search(text.rpartition('"metadata"')[2] if text[:1] == "{" else text[:_EDGE])
            failed = failed or (code is None and text.startswith("unsupported call"))
            refused = code is None and self.refused.search(text[:500])
            yield from self.end(number, "denied" if refused else _outcome(code, failed=failed), text)
        elif kind == "item_completed":
            done = _at(item, "item", dict)
            wrong = done.get("isError") is True or _at(done, "result", dict).get("isError") is True
            failed = done.get("status") == "failed" or wrong or done.get("exit_code") not in (None, 0)
            self._codes[_at(done, "id", str)] = failed

    def _begin(self, number: str, item: dict[str, Any], at: Any) -> None:
        given = item.get("arguments", item.get("input", item.get("action")))
        if isinstance(given, str) and item.get("type") == "function_call":
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                given = {"input": given}
        tool, place = _at(item, "name", str) or "shell", _at(item, "namespace", str)
        if place.startswith("mcp"):
            tool = f"{place}__{tool}"
        cwd, words = _at(given, "workdir", str), [*map(str, _at(given, "command", list))]
        if isinstance(given, dict) and words:
            script = len(words) == 3 and words[1] in {"-c", "-lc"}  # noqa: PLR2004 - bash -lc SCRIPT
            given = {**given, "command": words[2] if script else shlex.join(words)}
        elif isinstance(given, dict) and "cmd" in given:
            given = {"command" if name == "cmd" else name: one for name, one in given.items() if name != "workdir"}
        self.begin(number, tool, given, at=at, cwd=cwd)


class Gemini(Transcript):
    """Gemini CLI: a call and its result are one entry of a message, and a later message with the same id replaces it."""

    agent = "gemini"
    home = "GEMINI_CLI_HOME", ""
    places = tuple(f".gemini/tmp/*/chats/**/*.{end}" for end in ("json", "jsonl"))
    marks = (b'"toolCalls"', b'"sessionId"')
    refused = re.compile(r"^Tool execution blocked|denied by policy|^\[Operation Cancelled\]|blocked by policy")

    def __init__(self, path: str) -> None:
        super().__init__(path)
        folder = path.rpartition("/chats/")[0]
        self.way = "main" if os.path.dirname(path).endswith("/chats") else "subagent"
        try:
            with open(os.path.join(folder, ".project_root"), encoding="utf-8", errors="replace") as file:
                self.cwd = file.read(4096).strip()
        except OSError:
            pass

    def identity(self, call: PastCall) -> tuple[str, ...]:
        return call.session, call.id

    def take(self, line: dict[str, Any]) -> Iterator[PastCall]:
        self.session = _at(line, "sessionId", str) or self.session
        for message in _at(line, "messages", list) or _at(line, "$set.messages", list) or [line]:
            for one in _at(message, "toolCalls", list):
                if isinstance(one, dict):
                    self._add(one)
        yield from ()  # a later record may replace one: all are given at the end

    def _add(self, one: dict[str, Any]) -> None:
        name, given, at = _at(one, "name", str), one.get("args"), one.get("timestamp")
        call = self.begin(_at(one, "id", str), name, given, at=at)
        text, status = text_of(one.get("result")), one.get("status")
        call.text = text[:_TEXT]
        if status == "cancelled" or (status == "error" and self.refused.search(call.text[:500])):
            call.outcome = "denied"
        elif status == "error":
            call.outcome = "failed"
        elif status == "success":
            call.outcome = _outcome(_EXIT_CODE.search(text[-_EDGE:]))


class Copilot(Transcript):
    """Copilot: the start of each tool, and its end."""

    agent = "copilot"
    home = "COPILOT_HOME", ".copilot"
    marks = (b'"tool.execution', b'"session.', b'"toolRequests"')
    places = ("session-state/*/events.jsonl",)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.session = os.path.basename(os.path.dirname(path))
        self._own: set[str] = set()
        """The ids of calls that the program made, and no model."""

    def take(self, line: dict[str, Any]) -> Iterator[PastCall]:
        data, kind = _at(line, "data", dict), line.get("type")
        number = _at(data, "toolCallId", str)
        if kind in {"session.start", "session.resume"}:
            self.cwd = _at(data, "context.cwd", str) or self.cwd
        elif kind == "assistant.message" and not data.get("apiCallId"):
            self._own.update(_at(one, "toolCallId", str) for one in _at(data, "toolRequests", list))
        elif kind == "tool.execution_start" and number not in self._own:
            way = "subagent" if line.get("agentId") or data.get("parentToolCallId") else "main"
            way += "+mcp" if data.get("mcpServerName") else ""
            tool, given = _at(data, "toolName", str), data.get("arguments")
            self.begin(number, tool, given, at=line.get("timestamp"), way=way)
        elif kind == "tool.execution_complete":
            shell = _at(data, "shellExecution", dict) or _at(data, "result.shellExecution", dict)
            good = data.get("success") is True and not shell.get("exitCode")
            denied = _at(data, "error.code", str) == "denied"
            outcome = "denied" if denied else "succeeded" if good else "failed"
            yield from self.end(number, outcome, data.get("result", data.get("error")))


AGENTS: dict[str, type[Transcript]] = {kind.agent: kind for kind in (Claude, Codex, Gemini, Copilot)}

_EXIT_CODE = re.compile(r"(?:Process exited with code|[Ee]xit [Cc]ode:|\"exit_code\":)\s*(-?\d+)")


def _outcome(found: re.Match[str] | None, *, failed: bool = False) -> str:
    """Returns the outcome by the exit code that was found in a result's text. Without one, the result decides."""
    return "failed" if failed or (found is not None and int(found[1]) != 0) else "succeeded"


def seconds_of(text: Any) -> float:
    """Returns the seconds since 1970 of an ISO time; 0 for anything else."""
    try:
        when = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return 0.0
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def text_of(value: Any, depth: int = 0) -> str:
    """Returns the text in a result, whose form each agent and version has its own of."""
    if isinstance(value, str):
        return value
    if depth < 8:  # noqa: PLR2004 - deeper than any agent writes
        if isinstance(value, list):
            return "\n".join(filter(None, (text_of(one, depth + 1) for one in value[:50])))
        if isinstance(value, dict):
            names = ("text", "output", "content", "functionResponse", "response", "message", "error")
            return next(filter(None, (text_of(value.get(name), depth + 1) for name in names)), "")
    return ""


def _at(value: Any, path: str, kind: type[T]) -> T:
    """Returns the value at a path of keys; an empty one if there is none of this type."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, kind) else kind()
