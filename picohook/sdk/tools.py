"""Functions as tools for the model: offered with a schema of their parameters, called with arguments that fit it."""

from __future__ import annotations

from .base import ToolError
from .handlers import is_plain, threaded
from .schemas import code_of, problems, schema_of_parameters
from .serving import dump, print_traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .base import Decision
    from .calls import BeforeTool


class Tool:
    """A function that the model can call. The model gets its result: text unchanged, anything else as JSON."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        description: str,
        parameters: dict[str, Any] | None,
        *,
        thread: bool,
    ) -> None:
        if parameters is None:
            code_of(function)
        self.name = name or function.__name__
        self.description = description or (function.__doc__ or "").strip().split("\n\n")[0]
        self.plain = is_plain(function) and not thread
        """Whether its result certainly needs no `await`."""
        self._function = function
        self._call = threaded(function) if thread else function
        self._parameters = parameters
        self._takes_call = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of its arguments. If none was given, it is made from the annotations at the first use."""
        if self._parameters is None:
            self._parameters, self._takes_call = schema_of_parameters(self._function)
        return self._parameters

    def __call__(self, call: BeforeTool) -> Decision | Awaitable[Decision]:
        """Answer a call of this tool. An exception becomes a result that is an error."""
        wrong = [*problems(call.arguments, self.parameters)]
        if wrong:
            return call.respond(f"{self.name}: {'; '.join(wrong)}", is_error=True)
        arguments = {self._takes_call: call} if self._takes_call else {}
        try:
            value = self._call(**call.arguments, **arguments)
            if hasattr(value, "__await__"):
                return self._later(call, value)
            return _respond(call, value)
        except Exception as error:  # the model is told
            return self._failed(call, error)

    async def _later(self, call: BeforeTool, value: Awaitable[Any]) -> Decision:
        try:
            return _respond(call, await value)
        except Exception as error:
            return self._failed(call, error)

    def _failed(self, call: BeforeTool, error: Exception) -> Decision:
        if isinstance(error, ToolError):
            return call.respond(str(error), is_error=True)
        print_traceback(error)
        return call.respond(f"{self.name} failed: {type(error).__name__}", is_error=True)


def _respond(call: BeforeTool, value: object) -> Decision:
    return call.respond(value if isinstance(value, str) else dump(value))
