"""`HookApp`: registers the functions of a hook, and runs it."""

from __future__ import annotations

import os
import sys

from ..wire import words
from .calls import STAGES, AfterLLM, ApproveTool, BeforeLLM, BeforeTool, Decorators, OfTool
from .handlers import Handlers, Registry, is_plain, kinds_named, require_one_argument
from .serving import Server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .base import Call
    from .tools import Tool
    from .types import AddTool, F, Handler, OnEvent


class HookApp(Decorators):
    """A hook made of functions.

    `def` handlers run one at a time in the main thread, and block the whole hook: they need no locks, and have to be quick.
    `async def` handlers interleave where they await. One that calls what blocks awaits `asyncio.to_thread(...)`.

    `max_in_flight` is the number of requests that the host may send at once. By default it is 1 for a hook whose handlers are
    all plain functions. Then further requests wait in the host, which knows their deadlines. Other hooks have no limit.
    """

    def __init__(self, name: str, *, max_in_flight: int | None = None) -> None:
        self.name = name
        self._registry = Registry(name, max_in_flight)
        self._tools: dict[str, Tool] = {}
        self._server: Server | None = None

        for call in STAGES.values():
            setattr(self, call.stage, self._on_stage(call))
        self.on_event: OnEvent = self._on_event
        """Registers a handler of events: of these kinds, or of all kinds if none is named."""
        self.tool: AddTool = self._tool
        """Gives the model a tool. It is offered in before_llm and answered in before_tool, after all other handlers."""

    def on_shutdown(self, handler: F) -> F:
        """Register a function that is called when the hook ends: when the host closes stdin, and on a signal."""
        self._registry.closers.append(handler)
        return handler

    def log(self, message: str, level: str = "info", **fields: object) -> None:
        """Write to the host's log. `level` is debug, info, warning or error. Without a host, the line goes to stderr."""
        (self._server or Server(self._registry, -1, -1)).log(level, message, fields)

    def run(self) -> None:
        """Serve the host that started this process, until it closes stdin or sends SIGTERM or SIGINT.

        Raises `SystemExit(2)`, which denies in every agent, if it was given something and not greeted: silence would allow it.
        """
        stdin, stdout = _own_streams()
        try:
            _stop_on_signals()
            self.serve(stdin, stdout)
        except _Stopped:
            pass

        if self._server is not None and self._server.is_misread:
            self._server.warn(
                f"it was not greeted by {words.HELLO}: name its program in `command = [...]`, not in `run`"
            )
            raise SystemExit(2)

    def serve(self, stdin: int, stdout: int) -> None:
        """Serve the host at the other ends of these descriptors, until it closes its end."""
        self._server = Server(self._registry, stdin, stdout)
        self._server.serve()

    # Registering.

    def _on_stage(self, call: type[Call]) -> Any:
        def register(handler: Any = None, /, *, tool: str | None = None, stream: bool = False) -> Any:
            if handler is None:
                return lambda handler: register(handler, tool=tool, stream=stream)
            if not callable(handler):
                raise TypeError(f'@app.{call.stage}: settings have names, like tool="bash"')
            require_one_argument(handler, f"@app.{call.stage}")
            if call is AfterLLM:
                self._registry.streams = stream and self._registry.streams is not False
            elif stream:
                raise TypeError(f"@app.{call.stage}: only after_llm takes `stream`")
            if tool is not None and not issubclass(call, OfTool):
                raise TypeError(f"@app.{call.stage}: this stage is not about a tool, and takes no `tool`")
            self._handlers(call).add(handler, tool)
            self._registry.awaits |= not is_plain(handler)
            return handler

        return register

    def _on_event(self, *kinds: Any) -> Any:
        if len(kinds) == 1 and callable(kinds[0]):
            return self._on_event()(kinds[0])
        named = kinds_named(kinds)

        def register(handler: Handler) -> Handler:
            require_one_argument(handler, "@app.on_event")
            self._registry.observers.append((named, handler))
            return handler

        return register

    def _tool(
        self,
        function: Any = None,
        /,
        *,
        name: str = "",
        description: str = "",
        parameters: dict[str, Any] | None = None,
    ) -> Any:
        from .tools import Tool  # most hooks have no tools

        if function is None:
            return lambda function: self._tool(function, name=name, description=description, parameters=parameters)
        tool = Tool(function, name, description, parameters)
        if tool.name in self._tools:
            raise ValueError(f"@app.tool: this hook has a tool {tool.name!r} already")
        self._tools[tool.name] = tool
        self._handlers(BeforeLLM).last = self._offer
        self._handlers(BeforeTool).last = self._use
        self._registry.awaits |= not tool.plain
        return function

    def _handlers(self, call: type[Call]) -> Handlers:
        default = _deny if call is ApproveTool else None
        return self._registry.stages.setdefault(f"hook.{call.stage}", Handlers(call, default))

    def _offer(self, request: BeforeLLM) -> None:
        for tool in self._tools.values():
            request.add_tool(tool.name, tool.description, tool.parameters)

    def _use(self, call: BeforeTool) -> Any:
        tool = self._tools.get(call.tool)
        return None if tool is None else tool(call)


def _deny(call: ApproveTool) -> None:
    call.deny(f"no handler of this hook approves {call.tool}")


# A hook's process: its standard streams are reserved for the protocol, and SIGTERM and SIGINT end it cleanly.


class _Stopped(SystemExit):
    """Raised in the main thread when a signal asks this process to end."""


def _own_streams() -> tuple[int, int]:
    """Reserve stdin and stdout for the protocol. Returns their new descriptors, which no child process inherits.

    Other output of the hook, its libraries and its child processes to stdout goes to stderr. Their stdin is empty.
    """
    stdin, stdout = os.dup(0), os.dup(1)
    for descriptor in (stdin, stdout):
        os.set_blocking(descriptor, True)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        os.dup2(nothing, 1)
    os.close(nothing)
    sys.stdout = sys.stderr
    return stdin, stdout


def _stop_on_signals() -> None:
    """Raise `_Stopped` in the main thread on SIGTERM and SIGINT. A second signal ends the process at once."""
    import signal  # a test in memory does not need it

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise _Stopped

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
