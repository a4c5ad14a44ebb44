"""A hook with `shadow` is asked beside the chain: it is in the trail, and nothing else."""

from __future__ import annotations

import pytest

from picohook import FunctionHook, Host, ToolCall, TrailEntry
from picohook.engine.listener import Account, Listener
from picohook.errors import HookError
from picohook.hooks.base import Hook
from picohook.model.decisions import CONTINUE, Asked
from picohook.model.spec import HookSpec

pytestmark = pytest.mark.anyio
CALL = ToolCall(tool="bash")


class Beside(Hook):
    shadow = True

    async def handle(self, question):
        raise HookError("it was asked in the chain")

    def beside(self, stage, encoded, told):
        entry = TrailEntry(self.name, "", would="deny_tool")
        self.metrics.stages[stage.name].would["deny_tool"] += 1
        if told is not None:
            told(self, encoded, Asked(CONTINUE, encoded, entry))
        return entry


class Would(Listener):
    """Keeps what hooks in shadow would have done."""

    def __init__(self):
        self.seen = []

    def begin(self, stage, payload):
        seen = self.seen

        class Seen(Account):
            def would(self, hook, encoded, asked):
                asked.entry.would = "changed by the listener"
                seen.append((hook.name, encoded.payload.tool))

        return Seen(stage, payload)


def beside(*stages, **settings):
    return Beside(HookSpec(name="beside", stages=stages, **settings))


@pytest.mark.parametrize("listened", [False, True])
async def test_it_is_asked_and_neither_decides_nor_guards_nor_owns(listened):
    would = Would()
    hook = beside("before_tool", guard=True, provides=("bash",), on_failure="deny")
    async with Host([hook], listeners=[would] if listened else []) as host:
        outcome = await host.before_tool(CALL)
        status = host.status().wire()["hooks"][0]["stages"]["before_tool"]

    assert outcome.action == "continue"
    assert outcome.trail[0].wire()["would"] == "deny_tool"
    assert status["would"] == {"deny_tool": 1}
    assert would.seen == ([("beside", "bash")] if listened else [])


async def test_its_filter_holds_for_it():
    async with Host([beside("before_tool", filter={"tool": "other"})]) as host:
        (entry,) = (await host.before_tool(CALL)).trail

    assert (entry.skipped, entry.would) == (True, "")


async def test_at_approve_tool_it_has_no_voice():
    refuses = FunctionHook("refuses", {"approve_tool": lambda _: False})
    for others, approved in (([], True), ([refuses], False)):
        async with Host([beside("approve_tool"), *others]) as host:
            outcome = await host.approve_tool(CALL)
        assert outcome.approved is approved
        assert outcome.trail[0].would == "deny_tool"


async def test_it_stands_in_for_no_hook():
    def fails(_):
        raise OSError

    failing = FunctionHook("failing", {"before_tool": fails}, on_failure="deny", fallback="beside")
    async with Host([failing, beside("before_tool", layer="builtin")]) as host:
        outcome = await host.before_tool(CALL)

    assert outcome.action == "deny_tool"
