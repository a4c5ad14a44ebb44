"""Draws the course of a turn from its events: when each came, and what it was about.

Run it with: python3 runtime_events.py [FILE]

It reads `hook.runtime_event`, the newer kind of event, with dotted names: configure it with `observe` set to such names, or
with `events = "runtime"`. The lines go to FILE, or to stderr.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any


def describe(event: dict[str, Any], begun: datetime) -> str:
    after = (datetime.fromisoformat(event["time"]) - begun).total_seconds() * 1000
    payload = event.get("payload") or {}
    about = next((str(payload[name]) for name in ("Tool", "Model", "Status") if name in payload), "")
    return f"{after:7.1f} ms  {event['severity']:5}  {event['kind']}  {about}".rstrip()


def main() -> None:
    begun: datetime | None = None
    with open(sys.argv[1] if len(sys.argv) > 1 else 2, "w", encoding="utf-8") as file:
        for line in sys.stdin.buffer:
            request = json.loads(line)
            if request["method"] == "hook.runtime_event":
                event = request["params"]
                begun = begun or datetime.fromisoformat(event["time"])
                print(describe(event, begun), file=file, flush=True)
            elif request.get("id"):
                result = {"ok": True, "name": "runtime_events"}
                print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
