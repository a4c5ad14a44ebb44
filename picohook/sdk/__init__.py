"""Write a hook as functions: `HookApp`, and the calls and events that the functions get.

::

    from picohook.sdk import HookApp

    app = HookApp("gate")

    @app.before_tool(tool="bash")
    def guard(call):
        if "rm -rf" in call.arguments["command"]:
            return call.deny("too dangerous")

    app.run()

It needs only the standard library, and imports little of it at the start. Test a hook with `picohook.sdk.testing`.
"""

from __future__ import annotations

from . import calls
from .app import HookApp
from .base import Decision, ToolError
from .calls import *  # noqa: F403 - a call for each stage, which that module lists
from .views import Event, Meta, ToolResult

__all__ = ["Decision", "Event", "HookApp", "Meta", "ToolError", "ToolResult"]
__all__ += calls.__all__
