"""A hook as a vendor's agent starts it: a process for each call, which reads the event and lets the call through."""

import json
import sys

event = json.load(sys.stdin)
if "rm -rf" in event["tool_input"]["command"]:
    print("no", file=sys.stderr)
    sys.exit(2)
