"""Functions as tools for the model: offered with a schema of their parameters, called with arguments that fit it.

It reads a function's `__code__`, so that `inspect` is not imported, and imports `typing` only when a tool is used.
"""

from __future__ import annotations

from json import dumps

from .base import ToolError
from .handlers import is_plain
from .serving import dump, print_traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
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
    ) -> None:
        if parameters is None:
            code_of(function)
        self.name = name or function.__name__
        self.description = description or (function.__doc__ or "").strip().split("\n\n")[0]
        self.plain = is_plain(function)
        """Whether its result certainly needs no `await`."""
        self._function = function
        self._parameters = parameters

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of its arguments. If none was given, it is made from the annotations at the first use."""
        if self._parameters is None:
            self._parameters = schema_of_parameters(self._function)
        return self._parameters

    def __call__(self, call: BeforeTool) -> Decision | Awaitable[Decision]:
        """Answer a call of this tool. An exception becomes a result that is an error."""
        wrong = [*problems(call.arguments, self.parameters)]
        if wrong:
            return call.respond(f"{self.name}: {'; '.join(wrong)}", is_error=True)
        try:
            value = self._function(**call.arguments)
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


# The schema of a function's parameters.

_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a string", (str,)),
    "integer": ("an integer", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "array": ("a list", (list,)),
    "object": ("an object", (dict,)),
    "null": ("null", (type(None),)),
}
"""The types of JSON Schema: what a message calls a value of the type, and the Python types of such values."""
_PLAIN: dict[object, dict[str, Any]] = {kinds[-1]: {"type": name} for name, (_, kinds) in _KINDS.items()}
_STARS = 0x04 | 0x08  # inspect.CO_VARARGS, inspect.CO_VARKEYWORDS


def code_of(function: Callable[..., Any]) -> Any:
    """Returns the code of a function whose parameters all have names. Raises `TypeError` for other callables."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & _STARS or code.co_posonlyargcount:
        raise TypeError(f"{function}: its parameters cannot be read: give `parameters=` to @app.tool")
    return code


def schema_of_parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the schema. Raises `TypeError` for an annotation that has no schema."""
    code = code_of(function)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if hasattr(function, "__self__"):
        names = names[1:]
    from types import SimpleNamespace  # at the first use of a tool
    from typing import get_type_hints

    # A type that is imported for type checkers only is often that of the result, which needs none.
    own = {name: kind for name, kind in function.__annotations__.items() if name != "return"}
    annotations = get_type_hints(SimpleNamespace(__annotations__=own, __wrapped__=function), include_extras=True)
    defaults = function.__defaults__ or ()
    positional = names[: len(names) - code.co_kwonlyargcount]
    optional = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    optional.update(function.__kwdefaults__ or {})

    properties: dict[str, Any] = {}
    for name in names:
        try:
            properties[name] = dict(schema_of(annotations[name])) if name in annotations else {}
        except TypeError as error:
            raise TypeError(
                f"{function.__name__}, parameter {name}: {error}: give `parameters=` to @app.tool"
            ) from None
        if type(optional.get(name)) in {str, int, float, bool}:
            properties[name]["default"] = optional[name]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required := [name for name in properties if name not in optional]:
        schema["required"] = required
    return schema


def schema_of(annotation: Any) -> dict[str, Any]:
    """Returns the JSON schema of a type. Raises `TypeError` if it has none."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if annotation is None:
        return _PLAIN[type(None)]
    import types  # for annotations that are more than a plain type
    import typing

    if annotation is typing.Any:
        return {}
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        return {"type": "array", "items": schema_of(inside[0])}
    if origin is dict and inside[0] is str:
        return {"type": "object", "additionalProperties": schema_of(inside[1])}
    if origin is typing.Literal:
        return {"enum": list(inside)}
    if origin is typing.Annotated:
        described = next((text for text in inside[1:] if isinstance(text, str)), "")
        return {**schema_of(inside[0]), **({"description": described} if described else {})}
    if origin in {typing.Union, types.UnionType}:
        return {"anyOf": [schema_of(one) for one in inside]}
    raise TypeError(f"{annotation!r} has no JSON schema")


def problems(arguments: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    """Yields the mistakes of arguments in words that a model can act on: wrong names, and values of another type."""
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in arguments:
            yield f"{name} is missing"
    for name, value in arguments.items():
        if name not in properties:
            if schema.get("additionalProperties") is False:
                yield f"there is no {name}" + (f", only {', '.join(properties)}" if properties else "")
            continue
        wanted = properties[name] if isinstance(properties[name], dict) else {}
        kinds = [_KINDS.get(str(choice.get("type"))) for choice in wanted.get("anyOf", [wanted])]
        known = [kind for kind in kinds if kind is not None]
        if len(known) == len(kinds) and not any(type(value) in types for _, types in known):
            yield f"{name} must be {' or '.join(named for named, _ in known)}, and not {_shown(value)}"
        if "enum" in wanted and not any(value == one and type(value) is type(one) for one in wanted["enum"]):
            yield f"{name} must be one of {', '.join(map(_shown, wanted['enum']))}, and not {_shown(value)}"


def _shown(value: Any) -> str:
    text = dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004
