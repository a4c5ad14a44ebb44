"""The same with jsonrpcserver."""

import json
import sys
import warnings

warnings.simplefilter("ignore")
from jsonrpcserver import Success, dispatch  # noqa: E402

METHODS = {
    "hook.hello": lambda **_: Success({"ok": True}),
    "hook.before_tool": lambda **_: Success({"action": "continue"}),
}

for line in sys.stdin:
    if json.loads(line).get("id"):
        sys.stdout.write(dispatch(line, METHODS) + "\n")
        sys.stdout.flush()
