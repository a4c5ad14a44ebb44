"""Many clients at once: no answer is lost, and none goes to the wrong client.

`PICOHOOK_CALLS=2000` makes it 2,000 calls for each of the 50 clients, 100,000 in all: `make many`.
"""

from __future__ import annotations

import json
import os
import time

import anyio
import pytest

from picohook import Host
from picohook.testing import hook_process

pytestmark = pytest.mark.anyio

CLIENTS = 50
CALLS = int(os.environ.get("PICOHOOK_CALLS", "100"))
WINDOW = 20

# It repeats what it is asked about, and denies every tenth: each answer fits its own question alone.
ECHO = """
def before_tool(params):
    number = params["arguments"]["number"]
    if number % 10 == 0:
        return {"action": "deny_tool", "reason": f"{params['tool']} {number}"}
    return {"action": "modify", "call": {"arguments": {"number": number, "seen": f"{params['tool']} {number}"}}}
"""


async def test_fifty_clients_at_once_get_every_answer_and_only_their_own(serving, connect):
    spec = hook_process(ECHO, timeout=60)
    async with serving(Host([spec])):
        begun = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for name in range(CLIENTS):
                tasks.start_soon(ask_all, await connect(), f"client{name}")
        taken = time.perf_counter() - begun
    if CALLS > 100:
        print(  # noqa: T201 - the figure that was asked for
            f"\n{CLIENTS} clients, {CLIENTS * CALLS} calls in {taken:.1f} s: {CLIENTS * CALLS / taken:.0f} a second"
        )


async def ask_all(client, name):
    """Send all requests, with a bounded number open at once, and check every answer."""
    awaited, asked = set(), 0
    while asked < CALLS or awaited:
        if len(awaited) <= WINDOW // 2 and asked < CALLS:
            numbers = range(asked, min(asked + WINDOW // 2, CALLS))
            await client.send(b"".join(question(name, number) for number in numbers))
            awaited |= {*numbers}
            asked = numbers.stop
        answer = await client.message()
        asker, number = answer["id"].split()
        assert asker == name
        awaited.remove(int(number))  # each of them once
        outcome = answer["result"]
        assert [entry["error"] for entry in outcome["trail"]] == [None]
        if int(number) % 10 == 0:
            assert (outcome["action"], outcome["reason"]) == ("deny_tool", answer["id"])
        else:
            assert outcome["payload"]["arguments"] == {"number": int(number), "seen": answer["id"]}


def question(name, number):
    params = {"tool": name, "arguments": {"number": number}}
    asked = {"jsonrpc": "2.0", "id": f"{name} {number}", "method": "before_tool", "params": params}
    return json.dumps(asked).encode() + b"\n"
