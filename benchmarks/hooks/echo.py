"""A hook that says continue to everything: the least that a hook in plain Python does."""

import json
import sys

for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": {"action": "continue"}}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
