"""A hook of which there cannot be two: it holds a lock while it lives, and ends at once when another one holds it.

`python exclusive.py LOCK ANSWER`; with a third argument it fails when it has the lock.
"""

import fcntl
import json
import os
import sys

lock = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit("there are two of me")
if sys.argv[3:]:
    sys.exit("these settings are no good")
for line in sys.stdin:
    request = json.loads(line)
    result = {"ok": True}
    if request["method"] == "hook.before_tool":
        nonce = request["params"]["arguments"].get("nonce")
        result = {"action": "modify", "call": {"arguments": {"echo": nonce, "by": sys.argv[2]}}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)  # noqa: T201 - the protocol
