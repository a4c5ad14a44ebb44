"""Makes the JSON schema of a function's parameters from its annotations, and checks arguments against a schema.

It reads a function's `__code__`, so that `inspect` is not imported. It imports `typing` only for annotations that are not plain
types.
"""

from __future__ import annotations

from json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

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
_NAMED = {kind.__name__: kind for _, kinds in _KINDS.values() for kind in kinds}
_STARS = 0x04 | 0x08  # inspect.CO_VARARGS, inspect.CO_VARKEYWORDS


def code_of(function: Callable[..., Any]) -> Any:
    """Returns the code of a function whose parameters all have names. Raises `TypeError` for other callables."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & _STARS or code.co_posonlyargcount:
        raise TypeError(f"{function}: its parameters cannot be read: give `parameters=` to @app.tool")
    return code


def schema_of_parameters(function: Callable[..., Any]) -> tuple[dict[str, Any], str]:
    """Returns the schema, and the name of the parameter annotated `BeforeTool`, which gets the call itself, or "".

    Raises `TypeError` for an annotation that has no schema.
    """
    code = code_of(function)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if hasattr(function, "__self__"):
        names = names[1:]
    annotations = _annotations(function)
    defaults = function.__defaults__ or ()
    positional = names[: len(names) - code.co_kwonlyargcount]
    optional = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    optional.update(function.__kwdefaults__ or {})

    properties: dict[str, Any] = {}
    takes_call = ""
    for name in names:
        if getattr(annotations.get(name), "stage", None) == "before_tool":
            takes_call = name
            continue
        try:
            properties[name] = dict(schema_of(annotations[name])) if name in annotations else {}
        except TypeError as error:
            raise TypeError(
                f"{function.__name__}, parameter {name}: {error}: give `parameters=` to @app.tool"
            ) from None
        if type(optional.get(name)) in {str, int, float, bool}:
            properties[name]["default"] = optional[name]
    required = [name for name in properties if name not in optional]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False}, takes_call


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    annotations = function.__annotations__
    plain = {name: _NAMED.get(kind, kind) if isinstance(kind, str) else kind for name, kind in annotations.items()}
    if not any(isinstance(kind, str) for name, kind in plain.items() if name != "return"):
        return plain
    from typing import get_type_hints  # for annotations that are text

    return get_type_hints(function, include_extras=True)


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
    if typing.is_typeddict(annotation):
        fields = {name: schema_of(kind) for name, kind in typing.get_type_hints(annotation).items()}
        required = sorted(annotation.__required_keys__)
        return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}
    raise TypeError(f"{annotation!r} has no JSON schema")


def problems(value: Any, schema: dict[str, Any], where: str = "") -> Iterator[str]:
    """Yields the mistakes of a value, in words that a model can act on."""
    shown = where or "the arguments"
    wanted = schema.get("type")
    if isinstance(wanted, str):
        named, kinds = _KINDS.get(wanted, (wanted, (type(value),)))
        if type(value) not in kinds:
            yield f"{shown} must be {named}, and not {_shown(value)}"
            return
    if "enum" in schema and not any(value == one and type(value) is type(one) for one in schema["enum"]):
        yield f"{shown} must be one of {', '.join(map(_shown, schema['enum']))}, and not {_shown(value)}"
    choices = schema.get("anyOf")
    if choices:
        tried = [[*problems(value, choice, where)] for choice in choices]
        if all(tried):
            yield " or ".join(one[0] for one in tried)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from problems(item, schema["items"], f"{where}[{index}]")
    if isinstance(value, dict):
        yield from _problems_of_fields(value, schema, where)


def _problems_of_fields(value: dict[str, Any], schema: dict[str, Any], where: str) -> Iterator[str]:
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    prefix = f"{where}." if where else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{prefix}{name} is missing"
    for name, inside in value.items():
        if name in properties:
            yield from problems(inside, properties[name], f"{prefix}{name}")
        elif more is False:
            yield f"there is no {prefix}{name}" + (f", only {', '.join(properties)}" if properties else "")
        elif isinstance(more, dict):
            yield from problems(inside, more, f"{prefix}{name}")


def _shown(value: Any) -> str:
    text = dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004
