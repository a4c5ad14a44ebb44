"""A host without `picohook.contain` starts hooks in process groups, and refuses a hook that asks for more."""

from __future__ import annotations

import pytest
from loops import both
from rows import each
from scripted import scripted

from picohook import Engine, ToolCall
from picohook.model.spec import Limits, Sandbox

pytestmark = pytest.mark.anyio
anyio_backend = both


async def test_a_hook_that_asks_for_nothing_runs_in_its_process_group():
    async with Engine([scripted("plain", contain="best")]) as host:
        assert (await host.before_tool(ToolCall(tool="bash"))).action == "continue"
        status = host.status()
        assert (status.containment, status.hooks[0].containment) == ("group", "group")
        assert set(status.containment_lacks) == {"namespace", "sweep"}


@each(
    ("settings", "named"),
    [
        ({"contain": "required"}, 'contain = "required"'),
        ({"contain": "sweep"}, 'contain = "sweep"'),
        ({"limits": Limits(open_files=9)}, "limits"),
        ({"sandbox": Sandbox()}, "sandbox"),
    ],
)
async def test_a_hook_that_asks_for_more_is_refused_with_the_setting(settings, named):
    async with Engine([scripted("gate", on_failure="deny", **settings)]) as host:
        outcome = await host.before_tool(ToolCall(tool="bash"))
        assert outcome.action == "deny_tool"
        assert f"cannot be started: {named}: this host has no picohook.contain" in str(host.hooks[0].error)
        assert host.status().containment == "none"
