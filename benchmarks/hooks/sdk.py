"""The same on the SDK."""

from picohook.sdk import HookApp

app = HookApp("echo")


@app.before_tool
def go_on(call):
    return None


app.run()
