"""A vendor: how its agent asks hooks, and reads their answers, by the table in its folder.

For what no table can say, the folder has a `contract.py` with a subclass of `Vendor`. It starts no process and reads no clock.
Hook files take the way `encode`, `select`, `decode`, `merge`: a payload becomes the input of handlers, and their results
become a decision. The shim takes it backwards, in `shim/telling.py`, by the same rows.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import HookError, HookReplyError
from ...model.decisions import APPROVE, CONTINUE, AbortTurn, Approve, Continue, Deny, Modify, Pause, Retry, Skip
from ...model.payloads import Finish, Prompt, ToolCall, ToolReturn
from ...model.trail import Notes
from .contract import About, GroupAnswer, HandlerAnswer, HandlerInput, shortened
from .output import checked, choice, flag, require_no_hidden_answer, table, text_field
from .patterns import javascript, matches, rust
from .tools import known_name, server_of, shown_call, text_of_output
from .vendor_table import VendorTable
from .words import EVENT_WORDS, Told, filled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ...model.decisions import Decision
    from ...model.events import Event
    from ...model.expressions import Expression
    from ...model.payloads import Payload
    from .contract import Facts, Failures, HandlerResult, Rule
    from .files.handler_table import HandlerTable
    from .tools import ShownCall
    from .vendor_table import Row

BLOCK = 2
"""The exit code that blocks."""
ENDED = "a hook ended the turn"
UNEXPLAINED = "blocked by a hook, which gave no reason"
_ORDER = ("deny", "defer", "ask", "allow")
_SHELLS = {
    "bash": ("bash", "-c"),
    "powershell": ("pwsh", "-NoProfile", "-NonInteractive", "-Command"),
}


class Vendor(VendorTable):
    """The contract of one system with its hooks."""

    words: ClassVar[Mapping[str, Callable[[Told], Any]]] = EVENT_WORDS

    @property
    def most_blocks(self) -> int | None:
        """The number of times in a row that handlers may keep a turn from ending; None if each handler has its own limit."""
        return None if self.files.most_blocks is not None else 8

    # What handlers read, and which run.

    def encode(self, event: str, payload: Payload | Event, facts: Facts) -> HandlerInput | None:
        """Returns the handlers' input about a payload; None if the event does not happen with it."""
        row, call = self.events[event], None
        if isinstance(payload, Prompt | Finish):
            if bool(payload.meta.parent_turn_id) is not event.lower().startswith("subagent"):
                return None
        elif not row.of_subagents and payload.meta.parent_turn_id:
            return None
        if isinstance(payload, Prompt) and row.stage != "before_prompt":
            return None
        if isinstance(payload, ToolCall):
            if not _is_about(row, payload, facts):
                return None
            call = self.shown(shown_call(payload.tool, payload.arguments, facts.project, facts.tools), payload.tool)
        told = Told(event, payload, call, facts, self)

        def value(word: str) -> Any:
            return self.words[word](told)

        if row.needs and not value(row.needs):
            return None
        files = {field: path for field, path in filled(row.files, value).items() if path}
        return HandlerInput(filled(self.read_at(event), value), call, filled(self.env, value), files)

    def read_at(self, event: str) -> dict[str, Any]:
        """The fields that handlers read at an event."""
        return {**self.common, **self.events[event].reads}

    def shown(self, call: ShownCall, tool: str) -> ShownCall:
        """Returns a call as the system makes it. Takes it with the names of the common table, and the host's own name."""
        fields = self.tool_fields.get(call.tool, {})
        own = {fields.get(field, field): call.fields.get(field, field) for field in call.input}
        return call._replace(
            tool=tool.lower() if tool.lower() in self.more_tools else self.own_name(call.tool),
            input={fields.get(field, field): value for field, value in call.input.items()},
            fields={theirs: ours for theirs, ours in own.items() if theirs != ours},
        )

    def own_name(self, tool: str) -> str:
        """The system's name for a tool of the common table."""
        server = server_of(tool)
        if server is not None and self.server_tools:
            return self.server_tools.format(server=server[0], tool=server[1])
        return self.tools.get(tool, tool)

    def select(self, event: str, rules: Sequence[Rule], handler_input: HandlerInput, facts: Facts) -> list[int]:
        """Returns the indexes of the handlers that run. Of handlers with the same identity, only the first runs."""
        row = self.events[event]
        name = str(handler_input.stdin.get(row.matched, row.matched))
        names = self.names(row, name, handler_input) if name else ()
        chosen: dict[str, int] = {}
        for index, rule in enumerate(rules):
            if (not names or self.matches(row, rule.matcher, names)) and _may_fire(rule, handler_input, facts):
                chosen.setdefault(rule.identity or str(index), index)
        return list(chosen.values())

    def names(self, _row: Row, name: str, handler_input: HandlerInput) -> Sequence[str]:
        """Returns the names that matchers may have for the payload, of which the first is given."""
        call = handler_input.call
        if call is not None and name == handler_input.stdin.get("tool_name"):
            name = call.tool
        return (name, *self.earlier_names.get(name, ()))

    def matches(self, _row: Row, matcher: str, names: Sequence[str]) -> bool:
        """Whether a matcher at an event matches one of the names that a payload has."""
        return matches(matcher, names, self.expression, self.lists)

    @property
    def expression(self) -> Callable[[str], Expression]:
        """Makes an expression in the language of matchers."""
        return rust if self.language == "rust" else javascript

    # What their answers mean.

    def decode(self, event: str, rule: Rule, result: HandlerResult, failures: Failures) -> HandlerAnswer:
        """Returns the answer in a handler's result. A failure is a field of it. Strict counts more results as failures."""
        row = self.events[event]
        try:
            if result.failure is not None:
                raise result.failure
            answer = self.read(row, rule, result, strict=row.gate and failures == "strict")
            context = answer.context[: rule.context_limit * 4 or None]  # a token has about four characters
            answer = replace(answer, context=context, most_blocks=rule.most_blocks)
        except HookError as error:
            answer = self.failed(row, rule, result, error)
        return checked(self.title, rule, result, failures, answer) if row.gate else answer

    def read(self, row: Row, rule: Rule, result: HandlerResult, *, strict: bool) -> HandlerAnswer:
        """Returns the answer in a handler's result, strict only for a gate. Raises `HookError` for a failure."""
        raise NotImplementedError

    def failed(self, row: Row, rule: Rule, _result: HandlerResult, error: HookError) -> HandlerAnswer:
        """Returns the answer of a handler that failed."""
        closed = rule.blocks_on_failure and self.can_block(row)
        return HandlerAnswer("deny", str(error)) if closed else HandlerAnswer(failure=error)

    def can_block(self, row: Row) -> bool:
        """Whether exit code 2 blocks at an event."""
        return bool(row.blocks)

    def meant(self, writes: Mapping[str, str], fields: Mapping[str, Any], row: Row) -> dict[str, Any]:
        """The parts of a `HandlerAnswer` that fields are. Raises `HookReplyError` for a wrong value."""
        found: dict[str, Any] = {}
        for name, part in writes.items():
            if part == "verdict":
                words = row.verdicts or self.verdicts
                found[part] = words.get(choice(fields, name, words.keys()), "")
            elif part in {"reason", "context", "message"}:
                found[part] = shortened(text_field(fields, name))
            elif part == "input":
                found[part] = table(fields, name)
            elif part:
                found[part] = found.get(part) if fields.get(name) is None else fields[name]
        return found

    @staticmethod
    def end_in(fields: Mapping[str, Any]) -> str | None:
        """The reason why the agent has to stop; None if it continues."""
        return text_field(fields, "stopReason") or ENDED if flag(fields, "continue") is False else None

    def ignored(self, row: Row, fields: Mapping[str, Any], inner: Mapping[str, Any]) -> tuple[str, ...]:
        """The fields that mean nothing at this event."""
        at_top = [name for name in fields if name not in self.answers]
        inside = [f"{self.inside}.{name}" for name in inner if name not in {"hookEventName", *row.writes}]
        return (*at_top, *inside)

    def of_text(self, row: Row, text: str, *, strict: bool) -> HandlerAnswer:
        """The answer in output that is no JSON."""
        if strict:
            require_no_hidden_answer(text, self.answers)
        return HandlerAnswer(context=shortened(text) if row.text_is_context else "")

    # What they say together.

    def merge(
        self,
        event: str,
        answers: Sequence[HandlerAnswer],
        handler_input: HandlerInput,
        payload: Payload,
        failures: Failures,
    ) -> GroupAnswer:
        """Returns the group's answer. In strict, raises the first failure of a gate, unless a handler denies.

        A failure is never an approval. So it is also raised where calls are approved, even as the vendor.
        """
        row = self.events[event]
        about = About(row, handler_input, payload, failures == "strict")
        answers = self.counted(about, answers)
        failed = tuple(answer.failure for answer in answers if answer.failure is not None)
        denied = any(one.verdict == "deny" or one.ends is not None for one in answers)
        if failed and not denied and row.gate and (about.strict or row.stage == "approve_tool"):
            raise failed[0]
        joined = self.join(about, answers)
        return joined._replace(failures=(*failed, *joined.failures))

    def counted(self, _about: About, answers: Sequence[HandlerAnswer]) -> Sequence[HandlerAnswer]:
        """Returns the answers as the system counts them."""
        return answers

    def chain(self, _event: str, handler_input: HandlerInput, _answer: HandlerAnswer) -> HandlerInput:
        """Returns the next handler's input, where handlers run one after the other."""
        return handler_input

    def join(self, about: About, answers: Sequence[HandlerAnswer]) -> GroupAnswer:
        """Returns the answers joined, without their failures: deny before defer, ask and allow. The last change counts."""
        row, payload = about.row, about.payload
        verdict = next((one for one in _ORDER if any(answer.verdict == one for answer in answers)), "")
        reason = shortened("\n".join(one.reason for one in answers if one.verdict == verdict and one.reason))
        blocked = (reason or UNEXPLAINED) if verdict == "deny" and row.blocks else ""
        ends = "\n".join(answer.ends for answer in answers if answer.ends is not None)
        notes = notes_of(answers)
        if row.stage == "before_finish":
            return self._of_end(answers, blocked, notes, ends=ends)
        if row.stage == "approve_tool":
            return self._of_request(about.call, verdict, ends or blocked, answers)
        if ends:
            return GroupAnswer(AbortTurn(ends, notes=notes))
        if isinstance(payload, ToolReturn):
            return GroupAnswer(_of_result(row, blocked, answers, payload, notes))
        if blocked:
            kinds = {"before_tool": Deny, "before_compact": Skip}
            return GroupAnswer(kinds.get(row.stage, AbortTurn)(blocked, notes=notes))
        if verdict == "defer":
            return GroupAnswer(Pause(reason, notes=notes))
        changes: dict[str, Any] = {}
        if isinstance(payload, ToolCall):
            arguments = _arguments(answers, about.call)
            changes = {} if arguments is None else {"arguments": arguments}
        elif outputs := [answer.output for answer in answers if answer.output is not None]:
            changes = {"prompt": outputs[-1]}
        env = {name: value for answer in answers for name, value in answer.env.items()}
        return GroupAnswer(changed(payload, changes, notes), asks=verdict == "ask", env=env)

    def _of_request(
        self, call: ShownCall | None, verdict: str, refused: str, answers: Sequence[HandlerAnswer]
    ) -> GroupAnswer:
        """The decision about an approval; `refused` is the reason of a refusal."""
        if refused:
            return GroupAnswer(Deny(refused))
        if verdict != "allow":
            return GroupAnswer(APPROVE, silent=True)
        arguments = _arguments(answers, call)
        if call is not None and arguments not in (None, call.given):
            other = "it approves another call than the one that would run: a call can be changed at PreToolUse"
            return GroupAnswer(Deny(other))
        updates = [answer.permissions for answer in answers if answer.verdict == "allow"]
        if call is None or not updates[0] or any(one != updates[0] for one in updates):
            return GroupAnswer(APPROVE)
        try:
            return GroupAnswer(Approve(grant=self.grant_of(updates[0], call)))
        except HookReplyError as error:
            return GroupAnswer(APPROVE, failures=(error,))

    def grant_of(self, updates: Any, call: ShownCall) -> dict[str, Any]:
        """Returns the grant in the vendor's words for later calls. Raises `HookReplyError` if they say none."""
        raise NotImplementedError

    @staticmethod
    def _of_end(answers: Sequence[HandlerAnswer], blocked: str, notes: Notes | None, *, ends: str) -> GroupAnswer:
        """The decision at a turn's end. Unless a handler lets the turn end, a block or a context is feedback."""
        feedback = "\n\n".join(filter(None, (blocked, notes.additional_context if notes is not None else "")))
        if ends or not feedback or any(answer.yields for answer in answers):
            return GroupAnswer(let_pass(for_user(notes)))
        return GroupAnswer(Retry(feedback, notes=for_user(notes)), blocks=True)

    # Its files.

    def command(self, table: HandlerTable) -> dict[str, Any]:
        """Returns the settings of a hook that runs this handler's command."""
        shell = table.shell or self.files.shell
        if table.args is not None:
            return {"command": (table.command, *table.args)}
        if shell == "login":
            return {"command": (os.environ.get("SHELL") or "/bin/sh", "-lc", table.command)}
        return {"command": (*_SHELLS[shell], table.command)} if shell else {"run": table.command}

    def command_in(self, handler: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the same for a handler as it is in a file. Raises `ValidationError`."""
        from .files.handler_table import HandlerTable  # only where files are read

        table = HandlerTable.model_validate(self.files.known(handler))
        return self.command(table.with_texts(self.files.templates)) if table.type == "command" else {"command": ()}

    def plugin_of(self, path: Path, _project: Path | None) -> Path | None:
        """The directory of the plugin that has a file; None if none does. `_project` is the project that has it."""
        return path.parent.parent if path.parent.name in self.files.plugins else None

    def matcher_problem(self, _row: Row, matcher: str) -> str:
        """The reason why a matcher other than `*` cannot be read; empty if it can."""
        return self.expression(matcher).problem

    def settings_without_effect(self, table: Mapping[str, Any]) -> list[tuple[str, str]]:
        """The settings in a table of a file that picohook does not support, each with the reason."""
        fields = self.unsupported.items()
        return [(name, why) for name, why in fields if table.get(name) and name not in self.common]

    # Its agent, which asks the shim.

    @property
    def agent(self) -> str:
        """The agent's name, for people."""
        return self.shim.title or self.title

    @property
    def asked(self) -> dict[str, Row]:
        """The events about which the agent asks the shim: first those where a missing answer refuses."""
        asked = {event: row for event, row in self.events.items() if row.on_failure}
        return dict(sorted(asked.items(), key=lambda one: ("deny", "tell", "stop", "pass").index(one[1].on_failure)))

    def unsaid(self, _tool: str, _event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns arguments of a call of this tool that the event leaves out. Hooks see them, and cannot change them."""
        return {}

    def changed_input(self, _given: Mapping[str, Any], changed: Mapping[str, Any]) -> Mapping[str, Any]:
        """The changed input of a call for the agent. Raises `PicohookError` if the agent would run another one."""
        return changed

    def reshaped(self, _event: str, given: Mapping[str, Any], text: str) -> Any:
        """A tool's output with another text, in the shape of the agent. Raises `PicohookError` if there is none."""
        raise NotImplementedError


def _is_about(row: Row, payload: ToolCall, facts: Facts) -> bool:
    if isinstance(payload, ToolReturn) and row.results == ("good" if payload.result.is_error else "failed"):
        return False
    tool = known_name(payload.tool, facts.tools)
    return not row.tools or ("MCP" if server_of(tool) else tool) in row.tools


def _may_fire(rule: Rule, handler_input: HandlerInput, facts: Facts) -> bool:
    """Whether a handler's permission rule matches the call, or may match it."""
    if not rule.only_if:
        return True
    from .permission_rule import fires  # few files have one

    call = handler_input.call
    return call is not None and fires(rule.only_if, call.tool, call.input, facts.project)


def _arguments(answers: Sequence[HandlerAnswer], call: ShownCall | None) -> dict[str, Any] | None:
    """The arguments of the last handler that changed them; None if none did."""
    inputs = [answer.input for answer in answers if answer.input is not None]
    return call.arguments(inputs[-1]) if inputs and call is not None else None


def _of_result(
    row: Row, blocked: str, answers: Sequence[HandlerAnswer], payload: ToolReturn, notes: Notes | None
) -> Decision:
    """The decision about a result: the last changed output, with every context, and the reason of a block."""
    result = payload.result
    if blocked and row.replaces == "all":
        hidden = {"for_llm": blocked, "for_user": result.for_user and blocked, "media": []}
        return Modify(hidden, notes=for_user(notes))
    context = notes.additional_context if notes else ""
    outputs = [answer.output for answer in answers if answer.output is not None]
    text = text_of_output(outputs[-1]) if outputs else result.for_llm
    parts = (blocked, context) if blocked and row.replaces else (text, context, blocked)
    return changed(result, {"for_llm": "\n\n".join(filter(None, parts))}, for_user(notes))


def notes_of(answers: Sequence[HandlerAnswer]) -> Notes | None:
    """The texts of the answers for the user and for the model; None if there are none."""
    contexts = "\n\n".join(answer.context for answer in answers if answer.context)
    messages = "\n".join(answer.message for answer in answers if answer.message)
    return Notes(messages, contexts) if contexts or messages else None


def for_user(notes: Notes | None) -> Notes | None:
    """The notes without their text for the model; None if no text is left."""
    return Notes(notes.system_message) if notes is not None and notes.system_message else None


def let_pass(notes: Notes | None) -> Decision:
    """The decision that lets a payload pass."""
    return CONTINUE if notes is None else Continue(notes=notes)


def changed(before: Any, fields: Mapping[str, Any], notes: Notes | None) -> Decision:
    """The decision that lets a payload pass with these fields, of which only those count that differ."""
    changes = {name: value for name, value in fields.items() if value != getattr(before, name)}
    return Modify(changes, notes=notes) if changes else let_pass(notes)
