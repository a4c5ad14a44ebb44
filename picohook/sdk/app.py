"""A hook: what it does at which stage, and the program that it is."""

from __future__ import annotations

from ..wire import words
from .calls import STAGES, ApproveTool, BeforeLLM, BeforeTool, OfTool
from .handlers import Handlers, is_plain, kinds_named, threaded
from .serving import Server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .base import Call
    from .calls import AfterCompact, AfterLLM, AfterTool, BeforeCompact, BeforeFinish, BeforePrompt
    from .tools import Tool
    from .types import AddTool, F, Handler, OnEvent, OnStage, OnTool


class HookApp:
    """A hook made of functions.

    `def` handlers are called one at a time, in the main thread, and nothing else of the hook goes on meanwhile: they need no
    locks, and have to be quick. `async def` handlers interleave where they await. `thread=True` gives each call of a handler
    that blocks a thread of its own.

    `max_in_flight` is how many requests the host is to send at once. If nothing is said it is one for a hook that handles
    one at a time, so that the others wait in the host, which knows when to stop waiting; and no limit for any other.
    """

    before_prompt: OnStage[BeforePrompt]
    before_llm: OnStage[BeforeLLM]
    after_llm: OnStage[AfterLLM]
    before_tool: OnTool[BeforeTool]
    approve_tool: OnTool[ApproveTool]
    after_tool: OnTool[AfterTool]
    before_finish: OnStage[BeforeFinish]
    before_compact: OnStage[BeforeCompact]
    after_compact: OnStage[AfterCompact]

    def __init__(self, name: str, *, max_in_flight: int | None = None) -> None:
        self.name = name
        self.stages: dict[str, Handlers] = {}
        """By their methods."""
        self.closers: list[Callable[[], Any]] = []
        self._observers: list[tuple[frozenset[str] | None, Handler]] = []
        self._tools: dict[str, Tool] = {}
        self._max_in_flight = max_in_flight
        self._server: Server | None = None

        for call in STAGES.values():
            setattr(self, call.stage, self._on_stage(call))
        self.on_event: OnEvent = self._on_event
        """Call this with the events of these kinds; without a kind, with all."""
        self.tool: AddTool = self._tool
        """Give the model a tool: it is offered in before_llm and answered in before_tool, after all other handlers."""

    def on_shutdown(self, handler: F) -> F:
        """Call this when the hook ends: when the host closes its end, and on a signal."""
        self.closers.append(handler)
        return handler

    def log(self, message: str, level: str = "info", **fields: object) -> None:
        """Write a line into the host's log; `level` is debug, info, warning or error. While no host listens: to stderr."""
        (self._server or Server(self, -1, -1)).log(level, message, fields)

    def run(self) -> None:
        """Serve the host that started this process, until it closes stdin or a signal comes."""
        from .process import Stopped, own_streams, stop_on_signals  # noqa: PLC0415 - in memory, nothing is owned

        stdin, stdout = own_streams()
        try:
            stop_on_signals()
            self.serve(stdin, stdout)
        except Stopped:
            pass

    def serve(self, stdin: int, stdout: int) -> None:
        """Serve the host at the other ends of these descriptors, until it closes its end."""
        self._server = Server(self, stdin, stdout)
        self._server.serve()

    # For the server.

    def hello(self, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to the host's greeting."""
        version, modes = params.get("version", words.VERSION), params.get("modes")
        if version != words.VERSION:
            return {"ok": False, "reason": f"this hook speaks version {words.VERSION}, and not {version!r}"}
        if isinstance(modes, list) and self._server is not None:
            unasked = [stage.call.stage for stage in self.stages.values() if stage.call.mode not in modes]
            if unasked:
                self._server.complain(f"this host does not ask {', '.join(unasked)}: its `stages` do not name them")
        offered = ("cancel", "progress", "log", "ping") if self.stages else ("log", "ping")
        hello: dict[str, Any] = {"ok": True, "name": self.name, "capabilities": dict.fromkeys(offered, True)}
        if self._max_in_flight is not None:
            hello["max_in_flight"] = self._max_in_flight
        elif self.stages and self._answers_at_once():
            hello["max_in_flight"] = 1
        return hello

    def _answers_at_once(self) -> bool:
        """Whether nothing in here is ever awaited."""
        handlers = (handler for stage in self.stages.values() for handler in stage)
        return all(map(is_plain, handlers)) and all(tool.plain for tool in self._tools.values())

    def observers_of(self, kind: str) -> list[Handler]:
        """Who is told of events of this kind."""
        return [handler for kinds, handler in self._observers if kinds is None or kind in kinds]

    # Registering.

    def _on_stage(self, call: type[Call]) -> Any:
        def register(handler: Any = None, /, *, tool: str | None = None, thread: bool = False) -> Any:
            if handler is None:
                return lambda handler: register(handler, tool=tool, thread=thread)
            if not callable(handler):
                raise TypeError(f'settings of @app.{call.stage} have names, like tool="bash"')
            if tool is not None and not issubclass(call, OfTool):
                raise TypeError(f"{call.stage} is about no tool, and takes no `tool`")
            self._stage(call).add(threaded(handler) if thread else handler, tool)
            return handler

        return register

    def _on_event(self, *kinds: Any, thread: bool = False) -> Any:
        if len(kinds) == 1 and callable(kinds[0]):
            return self._on_event()(kinds[0])
        named = kinds_named(kinds)

        def register(handler: Handler) -> Handler:
            self._observers.append((named, threaded(handler) if thread else handler))
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
        thread: bool = False,
    ) -> Any:
        from .tools import Tool  # noqa: PLC0415 - most hooks have none

        if function is None:
            return lambda function: self._tool(
                function, name=name, description=description, parameters=parameters, thread=thread
            )
        tool = Tool(function, name, description, parameters, thread=thread)
        if tool.name in self._tools:
            raise ValueError(f"there is a tool {tool.name!r} already")
        self._tools[tool.name] = tool
        self._stage(BeforeLLM).last = self._offer
        self._stage(BeforeTool).last = self._use
        return function

    def _stage(self, call: type[Call]) -> Handlers:
        default = _nobody if call is ApproveTool else None
        return self.stages.setdefault(f"hook.{call.stage}", Handlers(call, default))

    def _offer(self, request: BeforeLLM) -> None:
        for tool in self._tools.values():
            request.add_tool(tool.name, tool.description, tool.parameters)

    def _use(self, call: BeforeTool) -> Any:
        tool = self._tools.get(call.tool)
        return None if tool is None else tool(call)


def _nobody(call: ApproveTool) -> None:
    call.deny(f"no handler of this hook approves {call.tool}")
