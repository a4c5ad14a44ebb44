"""The steps between the states of a hook's process, and what an illegal one does."""

from __future__ import annotations

from itertools import product

import pytest
from rows import each
from scripted import scripted

from picohook import Host, ToolCall
from picohook.hooks import supervised as states
from picohook.hooks.supervised import HookState, IllegalStepError, step

LEGAL = {
    ("starting", "starting"), ("starting", "ready"), ("starting", "restarting"), ("starting", "failed"),
    ("starting", "stopping"), ("starting", "stopped"),
    ("ready", "restarting"), ("ready", "failed"), ("ready", "stopping"), ("ready", "stopped"),
    ("restarting", "starting"), ("restarting", "failed"), ("restarting", "stopped"),
    ("failed", "restarting"), ("failed", "stopped"),
    ("stopping", "failed"), ("stopping", "stopped"),
}  # fmt: skip


@each(("now", "then"), list(product(HookState, HookState)))
def test_a_step_is_taken_if_it_is_legal_and_refused_if_it_is_not(now, then):
    if (now.value, then.value) in LEGAL:
        assert step(now, then) is then
    else:
        with pytest.raises(IllegalStepError, match=f"a hook that is {now.value} cannot become {then.value}"):
            step(now, then)


def test_every_state_but_stopped_leads_to_stopped():
    assert {now for now in HookState if HookState.STOPPED not in states.STEPS[now]} == {HookState.STOPPED}


@pytest.mark.anyio
async def test_an_illegal_step_gives_the_hook_up_and_hurts_neither_the_host_nor_another_hook(monkeypatch, journal):
    spec = scripted("h", stages=("before_tool", "approve_tool"))
    monkeypatch.setitem(states.STEPS, HookState.STARTING, states.STEPS[HookState.STARTING] - {HookState.READY})
    async with Host([spec], logger=journal) as host:
        monkeypatch.undo()
        await journal.seen("failed: it is not started again until it is reset")
        await host.mount(scripted("other"))
        broken, other = (next(hook for hook in host.status().hooks if hook.name == name) for name in ("h", "other"))
        assert (broken.state, other.state) == ("failed", "ready")
        assert (
            "its supervisor broke: IllegalStepError('a hook that is starting cannot become ready')" in broken.last_error
        )
        assert not (await host.approve_tool(ToolCall(tool="bash"))).approved
        host.reset("h")
        assert (await host.approve_tool(ToolCall(tool="bash"))).trail
