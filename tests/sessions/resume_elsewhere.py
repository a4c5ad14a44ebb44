"""Another process, in which a turn goes on: its orders are a JSON object on stdin, and what came of it goes to stdout."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio

sys.path.append(str(Path(__file__).parent))

from turns import KEY, Model, Tools, host_with, office, says, told

from picohook import Continue
from picohook.engine.used_pauses import UsedPausesFile
from picohook.sessions.paused import PausedTurn


async def resume(orders: dict[str, Any]) -> dict[str, Any]:
    paused = PausedTurn.from_json(orders["paused"], key=KEY if orders["sealed"] else None)
    model, tools = Model(says("done")), Tools()
    hooks = office(orders["log"], at=orders["at"], strict=orders["strict"])
    store = {"used_pauses": UsedPausesFile(orders["store"])} if "store" in orders else {}
    async with (
        host_with(*hooks, **store) as host,
        host.session("s1", channel="telegram") as session,
        session.resume(paused, Continue()) as turn,
    ):
        if orders.get("dies"):
            os.kill(os.getpid(), signal.SIGKILL)
        result = await turn.run(complete=model.complete, execute=tools.execute)
    return {
        "ran": tools.ran,
        "told": told(result.messages),
        "content": result.content,
        "iterations": result.iterations,
        "turn_id": turn.meta.turn_id,
        "system_prompts": [request.system_prompt for request in model.requests],
        "events": [event.kind for event in host.events],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(anyio.run(resume, json.load(sys.stdin))))
