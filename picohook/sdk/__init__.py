"""For those who write hooks: a `HookApp`, and what its functions are given.

::

    from picohook.sdk import HookApp

    app = HookApp("gate")

    @app.before_tool(tool="bash")
    def guard(call):
        if "rm -rf" in call.arguments["command"]:
            return call.deny("too dangerous")

    app.run()

Standard library only, and as little of that at the start as can be. `picohook.sdk.testing` is for a hook's own tests.
"""

from __future__ import annotations

from .app import HookApp
from .base import Decision, ToolError
from .calls import (
    AfterCompact,
    AfterLLM,
    AfterTool,
    ApproveTool,
    BeforeCompact,
    BeforeFinish,
    BeforeLLM,
    BeforePrompt,
    BeforeTool,
)
from .views import Event, Meta, ToolResult

__all__ = [
    "AfterCompact",
    "AfterLLM",
    "AfterTool",
    "ApproveTool",
    "BeforeCompact",
    "BeforeFinish",
    "BeforeLLM",
    "BeforePrompt",
    "BeforeTool",
    "Decision",
    "Event",
    "HookApp",
    "Meta",
    "ToolError",
    "ToolResult",
]
