"""The hook of a guard: it judges each tool call, in a thread, because a judgement may look at files and ask git."""

import os
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from ...hooks.base import Hook, HostServices, Question
from ...model.decisions import CONTINUE, Decision, Deny, Pause
from ...model.events import Event
from ...model.payloads import ToolCall
from ..vendors import dialogue
from . import tools
from .call import Place, root_of
from .judge import Judge, Verdict
from .memory import Memory
from .table import GuardsSpec

THREADS = 4


class GuardsHook(Hook):
    """Judges tool calls. A call that a person has to approve goes to the host's approvers, or to the agent's own dialogue."""

    spec: GuardsSpec

    def __init__(self, spec: GuardsSpec) -> None:
        super().__init__(spec)
        self._memory = Memory()
        self._judge = Judge(spec.packs, allow=spec.allow, undecided=spec.undecided, own=spec.rule, trusted=spec.trusted)
        self._project = root_of(os.getcwd())

    def open(self, host: HostServices) -> None:
        self._host = host
        self._threads = anyio.CapacityLimiter(THREADS)

    async def handle(self, question: Question[ToolCall]) -> Decision:
        call, session = question.shared.payload, question.shared.payload.meta.session_key
        agent = dialogue.CURRENT.get()
        kind = call.tool_kind or tools.annotated(call.context or {})
        written = partial(self._memory.text, session)
        judge = partial(self._judge.judge, call.tool, call.arguments, self._place(call, agent), written, kind=kind)
        with question.time_limit():
            verdict = await anyio.to_thread.run_sync(judge, limiter=self._threads, abandon_on_cancel=True)
        if verdict.decision != "deny":
            self._memory.note(session, verdict.reading.written)
        return self._decision(verdict, call, agent)

    def _place(self, call: ToolCall, agent: dialogue.Dialogue | None) -> Place:
        """Where the call is made: as its context or the agent says, else in the host's own directory."""
        told: list[Any] = [(call.context or {}).get(name) for name in ("cwd", "project")]
        cwd, project = (path if isinstance(path, str) and os.path.isabs(path) else None for path in told)
        usual = agent.cwd if agent else os.getcwd()
        return Place(cwd or usual, project or self._project)

    def _decision(self, verdict: Verdict, call: ToolCall, agent: dialogue.Dialogue | None) -> Decision:
        if verdict.decision == "continue":
            return CONTINUE
        reason = f"{verdict.reason} ({verdict.rule})"
        if verdict.decision == "deny":
            return Deny(reason, severity=verdict.severity)
        if self._host.has_approver(call, None):
            return CONTINUE
        if agent is not None and agent.asks:
            return Pause(reason)
        return Deny(f"{reason} It has to be approved by a person, and there is no approver.", severity=verdict.severity)

    def notify(self, event: Event) -> None:
        if event.kind == "session_end":
            self._memory.forget(event.meta.session_key)
