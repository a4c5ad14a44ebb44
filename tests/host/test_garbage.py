"""What a call leaves behind for the garbage collector: nothing, so that it never runs because of a call."""

from __future__ import annotations

import gc
import sys

import pytest

from picohook import HookSpec, Host, Timeouts, ToolCall

pytestmark = pytest.mark.anyio


ANSWERS = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    answer = {"result": {}} if request["method"] == "hook.hello" else request["params"]["arguments"]["answer"]
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ({"result": {"action": "continue"}}, None),
        ({"result": {"action": "modify", "call": {"tool": "other"}}}, None),
        ({"result": {"action": "explode"}}, "reply"),
        ({"result": 5}, "reply"),
        ({"result": 5, "error": 5}, "reply"),
        ({"error": {"code": -32000, "message": "no"}}, "refused"),
    ],
)
async def test_a_call_leaves_no_cycles_of_objects_behind(answer, failure):
    call = ToolCall(tool="bash", arguments={"answer": answer})
    hook = HookSpec(name="h", command=(sys.executable, "-c", ANSWERS), stages=("before_tool",))
    async with Host([hook], timeouts=Timeouts(interceptor=60)) as host:
        assert (await host.before_tool(call)).trail[0].failure == failure
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(20):
                await host.before_tool(call)
            gc.collect()
            left = [type(one).__name__ for one in gc.garbage if type(one).__module__.startswith("picohook")]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert left == []
