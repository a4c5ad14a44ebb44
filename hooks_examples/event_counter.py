"""Counts events by their kind, and says how many there were when its input ends.

Run it with: python3 event_counter.py [FILE]

It only observes: it reads `hook.event`, and answers nothing but `hook.hello`. The counts go to FILE, or to stderr.
"""

from __future__ import annotations

import json
import sys
from collections import Counter


def main() -> None:
    counts: Counter[str] = Counter()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request["method"] == "hook.event":
            counts[str(request["params"]["Kind"])] += 1
        elif request.get("id"):
            result = {"ok": True, "name": "event_counter"}
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    with open(sys.argv[1] if len(sys.argv) > 1 else 2, "w", encoding="utf-8") as file:
        file.write(f"{counts.total()} events: {summary}\n")


if __name__ == "__main__":
    main()
