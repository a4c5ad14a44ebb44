"""What only Codex does: output counts only with exit code 0, unknown fields are errors, and files are edited by patches."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....errors import HookReplyError
from ....wire.regular_files import open_regular
from ..claude.contract import request_in
from ..contract import About, HandlerAnswer, HandlerResult, Rule, shortened
from ..output import BLANK, choice, ended, read_object, table, text_field
from ..tools import BEGIN_PATCH, ShownCall
from ..vendor import BLOCK, Vendor
from ..vendor_table import Row

TTY = "tty"
_RECENT = 8 << 20
"""The last bytes of a transcript, in which a call is looked for."""
PATCH = "apply_patch"
_PATCH_FIELDS = ("command", "patch", "input", "patch_text")
_RESERVED = ("updatedInput", "updatedPermissions", "interrupt")
"""The fields of a decision about permission that Codex reserves: with one of them, the answer is a no."""


class Codex(Vendor):
    """Codex."""

    def read(self, row: Row, _rule: Rule, result: HandlerResult, *, strict: bool) -> HandlerAnswer:
        stderr = shortened(result.stderr.strip())
        if result.exit_code == BLOCK and stderr and row.blocks:
            return HandlerAnswer("deny", stderr)
        if result.exit_code:
            raise ended(result)
        printed = read_object(result.stdout, strict=strict, blank=BLANK)
        if printed is not None:
            return self._of_json(row, printed, strict=strict)
        text = result.stdout.strip()
        if text and row.stage == "before_finish":
            raise HookReplyError("it printed text, and only a JSON object is an answer")
        return self.of_text(row, text, strict=strict)

    def _of_json(self, row: Row, printed: Mapping[str, Any], *, strict: bool) -> HandlerAnswer:
        """The answer. Codex takes the name of any event for the event. In strict, only a denial may have the wrong one."""
        inner = table(printed, self.inside)
        _require_known(printed, self.answers)
        if inner is not None:
            _require_known(inner, ("hookEventName", *row.writes))
            named = choice(inner, "hookEventName", self.events)
            if not named or (strict and named != row.name and inner.get("permissionDecision") != "deny"):
                raise HookReplyError(f"`hookSpecificOutput.hookEventName` is not {row.name}")
        inner, at_tool = inner or {}, row.stage == "before_tool"
        ends = self.end_in(printed)
        top = self.meant(self.answers, printed, row)
        context = shortened(text_field(inner, "additionalContext"))
        answer = HandlerAnswer(**top, context=context, ends=ends if row.ends else None)
        decision = choice(printed, "decision", {"approve", "block"} if at_tool else {"block"})
        if at_tool:
            unsupported = [name for name in ("stopReason", "suppressOutput") if printed.get(name)]
            return self._of_call(answer, inner, decision, unsupported + ([] if ends is None else ["continue"]))
        if row.stage == "approve_tool":
            asked = table(inner, "decision") or {}
            reserved = next((name for name in _RESERVED if asked.get(name) not in (None, False)), None)
            if reserved is not None:
                return replace(answer, verdict="deny", reason=f"its answer has `{reserved}`, which Codex reserves")
            _require_known(asked, ("behavior", "message", *_RESERVED))
            return request_in(answer, inner)
        if row.blocks and decision == "block":
            if not answer.reason.strip():
                raise HookReplyError("it blocks without a `reason`")
            return replace(answer, verdict="deny")
        return answer

    def _of_call(
        self, answer: HandlerAnswer, inner: Mapping[str, Any], decision: str, unsupported: list[str]
    ) -> HandlerAnswer:
        verdict = choice(inner, "permissionDecision", self.verdicts)
        reason = shortened(text_field(inner, "permissionDecisionReason"))
        if not verdict and decision == "block":
            verdict, reason = "deny", answer.reason
        changed = inner.get("updatedInput")
        if decision == "approve" and verdict != "deny":
            unsupported = ["decision", *unsupported]
        if verdict == "ask":
            unsupported = ["permissionDecision", *unsupported]
        if unsupported:
            raise HookReplyError(f"Codex does not support this `{unsupported[0]}` at PreToolUse")
        if verdict == "deny" and not reason.strip():
            raise HookReplyError("it denies without a `permissionDecisionReason`")
        if (verdict == "allow") is not (changed is not None):
            raise HookReplyError("`allow` and `updatedInput` come together: alone, neither is an answer")
        if not isinstance(changed, dict | None):
            return HandlerAnswer("deny", "its `updatedInput` is not an object")
        return replace(answer, verdict=verdict, reason=reason, input=changed)  # type: ignore[arg-type] # one of the words

    def counted(self, about: About, answers: Sequence[HandlerAnswer]) -> Sequence[HandlerAnswer]:
        """The answers, of which none can change a call that handlers read as a patch."""
        call = about.call
        if call is None or call.tool != PATCH or call.fields:
            return answers
        error = HookReplyError("it changes the patch, and picohook cannot turn a patch back into a call")
        return [
            replace(one, input=None)
            if one.input in (None, call.input)
            else replace(one, verdict="", input=None, failure=error)
            for one in answers
        ]

    def shown(self, call: ShownCall, tool: str) -> ShownCall:
        """A call as Codex would make it: it edits files by patches only."""
        if tool == PATCH:
            patches = {name: call.given[name] for name in _PATCH_FIELDS if name in call.given}
            if not patches:
                return call
            own, text = next(iter(patches.items()))
            differs = any(other != text for other in patches.values())
            unclear = " and ".join(f"`{one}`" for one in patches) if differs else ""
            return call._replace(tool=PATCH, input={"command": text}, fields={"command": own}, unclear=unclear)
        if call.tool in {"Edit", "Write"}:
            return call._replace(tool=PATCH, input={"command": patch(call)}, fields={})
        return super().shown(call, tool)

    def unsaid(self, tool: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """The `tty` of a call of a shell: into a shell with one, `write_stdin` types without an event.

        Codex writes each call into its transcript before it runs hooks. If it cannot be found there, `tty` is "unknown".
        """
        if tool != "Bash":
            return {}
        try:
            descriptor, status = open_regular(str(event["transcript_path"]))
            with open(descriptor, "rb") as file:
                file.seek(max(0, status.st_size - _RECENT), os.SEEK_SET)
                lines = file.read(_RECENT).splitlines()
            for line in reversed(lines):
                if json.dumps(event["tool_use_id"]).encode() not in line:
                    continue
                payload = json.loads(line).get("payload", {})
                if payload.get("call_id") == event["tool_use_id"] and payload.get("type") in _CALLS:
                    given = json.loads(payload.get("arguments") or "{}")
                    return {TTY: True} if given.get(TTY) else {}
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            pass
        return {TTY: "unknown"}

    def changed_input(self, _given: Mapping[str, Any], changed: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: value for name, value in changed.items() if name != TTY}


_CALLS = frozenset({"function_call", "local_shell_call"})


def _require_known(fields: Mapping[str, Any], known: Iterable[str]) -> None:
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise HookReplyError(f"`{unknown[0]}` is not a field of this answer (known: {', '.join(known)})")


def patch(call: ShownCall) -> str:
    """Returns the patch with the same effect as a call that writes or edits a file."""
    path = call.input.get("file_path", "")
    if call.tool == "Write":
        lines = [f"*** Add File: {path}", *_lines("+", call.input.get("content"))]
    else:
        changes = [*_lines("-", call.input.get("old_string")), *_lines("+", call.input.get("new_string"))]
        lines = [f"*** Update File: {path}", "@@", *changes]
    return "\n".join([BEGIN_PATCH, *lines, "*** End Patch"])


def _lines(mark: str, text: Any) -> list[str]:
    return [mark + line for line in str(text).splitlines()] if text else []


VENDOR = Codex
