"""Reads the transcripts of each agent, as `transcripts.toml` says. What is not known there is left out."""

import glob
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ...protocol.codec import decode_own
from ..vendors.tools import shown_call

_EVERY, *_EACH = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
AGENTS = {name: SimpleNamespace(name=name, **{**_EVERY[1], **table}) for name, table in _EACH}
OUTCOMES = ("succeeded", "failed", "denied", "unknown")
_TEXT = 4000
"""The characters of a result that are kept."""
_DIRECTORIES = ("cwd", "context.cwd")
_EXECUTIONS = ("shellExecution.exitCode", "result.shellExecution.exitCode")
_WRONG = ("item.isError", "item.result.isError", "item.exit_code", *_EXECUTIONS)
"""Where an entry has what is only false or zero after a success."""
_DENIALS = ("toolDenialKind", "toolUseResult.toolDenialKind")
_RESULTS = ("text", "output", "content", "functionResponse", "response", "message", "error")


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


def found_of(agent: str, patterns: Iterable[str]) -> Iterable[str]:
    """Returns what these patterns match in the directories of an agent, each once."""
    form = AGENTS[agent]
    moved = os.environ.get(form.variable)
    return dict.fromkeys(
        os.path.realpath(path)
        for root in ([moved] if moved else [os.path.expanduser(f"~/{one}") for one in form.usual])
        for pattern in patterns
        for path in glob.iglob(os.path.join(glob.escape(root), pattern), recursive=True, include_hidden=True)
    )


class Transcript:
    """One file while it is read."""

    def __init__(self, agent: str, path: str) -> None:
        self._form = AGENTS[agent]
        named = re.search(self._form.session_in, path)
        self._session, self._cwd = named[1] if named else path, _project_root(path)
        self._way = "subagent" if re.search(self._form.subagent_in, path) else "main"
        self._marks = [mark.encode() for mark in self._form.marks]
        self._own: set[str] = set()
        """The ids of calls that Copilot's program made, and no model."""
        self.open: dict[str, PastCall] = {}
        """Calls without a result so far, by id."""

    def wants(self, line: bytes) -> bool:
        """Whether a line may have something of a call, or is damaged."""
        return any(mark in line for mark in self._marks) or line[:1] != b"{" or line[-2:] != b"}\n"

    def take(self, record: dict[str, Any]) -> Iterator[PastCall]:
        """Takes a record. Yields the calls that have ended by it."""
        form = self._form
        is_first = not form.records or record.get("type") in form.records
        for entry in _entries(record, form.levels):
            kind, number, requests = entry.get("type"), _text(entry, *form.id), entry.get("toolRequests")
            tool = _text(entry, *form.tool) or ("shell" if kind == "local_shell_call" else "")
            self._session = _text(entry, *form.session) or self._session
            self._cwd = _text(entry, *_DIRECTORIES) or self._cwd
            if _at(entry, *form.of_subagent) is not None:
                self._way = "subagent"
            if isinstance(requests, list) and not entry.get("apiCallId"):
                self._own.update(_text(one, *form.id) for one in requests)
            if is_first and kind in form.begins and tool and number not in self.open and number not in self._own:
                self.open[number] = self._begun(entry, number, tool)
            call = self.open.get(number)
            if call is not None and kind in (*form.notes, *form.ends):
                text = text_of(_at(entry, *form.result))
                call.text, call.outcome = text[:_TEXT], self._outcome(entry, text, failed=call.outcome == "failed")
                if kind in form.ends and call.outcome != "unknown":
                    yield self.open.pop(number)

    def _begun(self, entry: dict[str, Any], number: str, tool: str) -> PastCall:
        """Returns a call as hooks see it."""
        given = _at(entry, *self._form.arguments)
        if isinstance(given, str):
            try:
                given = decode_own(given.encode())
            except ValueError:
                pass  # it is free text, or is damaged
        given = given if isinstance(given, dict) else {"input": given}
        server = _text(entry, "namespace")
        tool = f"{server}__{tool}" if server.startswith("mcp") else tool
        cwd = _text(given, "workdir") or self._cwd
        name, shown, *_ = shown_call(tool, given, cwd, {})
        if name == "Bash":
            shown.pop("workdir", None)
            words = shown.get("command")
            if isinstance(words, list):
                script = len(words) == 3 and words[1] in {"-c", "-lc"}  # noqa: PLR2004 - bash -lc SCRIPT
                shown["command"] = words[2] if script else shlex.join(map(str, words))
        way = "subagent" if any(_at(entry, path) for path in self._form.subagent) else self._way
        way += "+mcp" if tool.startswith("mcp_") or entry.get("mcpServerName") else ""
        at = seconds_of(entry.get("timestamp"))
        return PastCall(self._form.name, self._session, number, name, shown, at, cwd, way)

    def _outcome(self, entry: dict[str, Any], text: str, *, failed: bool) -> str:
        """Returns the outcome by an entry about the end of a call, and its text. `failed` is what an entry before said."""
        form, (where, words) = self._form, self._form.outcome
        outcome: str = words.get(str(_at(entry, where)).lower(), words["*"])
        code = re.match(form.code, text, re.DOTALL)
        failed = failed or any(_at(entry, path) for path in _WRONG) or text.startswith("unsupported call")
        if outcome == "succeeded" and (failed or (code and int(code[1]))):
            outcome = "failed"
        may_be_denied = outcome == "failed" or (form.refused_by_text and not code)
        refused = may_be_denied and re.search(form.refused, text[:500])
        told = _at(entry, *_DENIALS) or _at(entry, "error.code") == "denied"
        return "denied" if refused or told else outcome


def _entries(value: dict[str, Any], levels: list[list[str]]) -> Iterator[dict[str, Any]]:
    """Yields what a record says, a table for each of its entries, which also has the fields around it."""
    if not levels:
        yield value
        return
    inner = next(filter(None, (_at(value, path) for path in levels[0])), value)
    for one in inner if isinstance(inner, list) else [inner]:
        if isinstance(one, dict):
            yield from _entries({**value, **one}, levels[1:])


def _project_root(path: str) -> str:
    """Returns the directory that Gemini CLI has noted for a project; empty if it has not."""
    try:
        with open(f"{path.rpartition('/chats/')[0]}/.project_root", encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


def seconds_of(text: Any) -> float:
    """Returns the seconds since 1970 of an ISO time; 0 for anything else."""
    try:
        when = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return 0.0
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def text_of(value: Any) -> str:
    """Returns the text in a result, whose form each agent and version has its own of."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(text_of, value[:50])))
    if isinstance(value, dict):
        return next(filter(None, (text_of(value.get(name)) for name in _RESULTS)), "")
    return ""


def _at(value: Any, *paths: str) -> Any:
    """Returns the first value at these paths of keys that is there; None without one."""
    for path in paths:
        found = value
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            return found
    return None


def _text(value: Any, *paths: str) -> str:
    """Returns the same as a text; an empty one without it."""
    return str(_at(value, *paths) or "")
