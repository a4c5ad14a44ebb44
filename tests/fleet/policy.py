"""The policy that workers serve: no call with one of the words that it is started with.

python policy.py rm curl
"""

import sys

from picohook.sdk import HookApp

app = HookApp("policy")


@app.before_tool
def before_tool(call):
    words = str(call.arguments.get("command", "")).split()
    forbidden = [word for word in words if word in sys.argv[1:]]
    return call.deny(f"{forbidden[0]} is forbidden") if forbidden else None


app.run()
