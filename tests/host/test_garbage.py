"""What a call leaves behind for the garbage collector: nothing, so that it never runs because of a call."""

from __future__ import annotations

import gc

import pytest
from scripted import scripted

from picohook import Host, Timeouts, ToolCall

pytestmark = pytest.mark.anyio


async def test_a_call_leaves_no_cycles_of_objects_behind():
    async with Host([scripted("h")], timeouts=Timeouts(interceptor=60)) as host:
        await host.before_tool(ToolCall(tool="bash", arguments={"nonce": 0}))
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for nonce in range(20):
                await host.before_tool(ToolCall(tool="bash", arguments={"nonce": nonce}))
            gc.collect()
            left = [type(one).__name__ for one in gc.garbage if type(one).__module__.startswith("picohook")]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert left == []
