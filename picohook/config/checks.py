"""Checks a part of a file with its pydantic model, and names each mistake in plain words."""

import json
import re
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ..extensions import every, find, others
from ..model.spec import HookSpec
from ..wire.did_you_mean import MEANT, nearest
from ..wire.words import EVENT_KINDS, RUNTIME_KINDS
from .problems import KeyPath, Problems, meant, quoted

M = TypeVar("M", bound=BaseModel)

A_TABLE_EACH = "each hook has a table with its name: [hooks.NAME]"
MOST_GUESSES = 16
"""For how many unknown keys of one table a meaning is guessed. Guessing takes long."""
_STAGE_FIELDS = frozenset({"stages", "timeouts"})


def validate(
    model: type[M], table: Any, problems: Problems, at: KeyPath = (), *, words: Mapping[str, str] | None = None
) -> M | None:
    """Returns the table as the model. If it does not fit, adds the mistakes to the problems, and returns None.

    `words` has the file format's own names for types of values. Pydantic reads the table as JSON. Only then does its strict
    mode take lists and strings for tuples and enums, and still refuse "5" for 5 and 1 for true.
    """
    try:
        return model.model_validate_json(json.dumps(table), strict=True)
    except ValidationError as error:
        explain(error, model, problems, at, words=words)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a thousand brackets
        problems.add(at, "holds a value that is too large to read")
    return None


def explain(
    error: ValidationError,
    model: type[BaseModel],
    problems: Problems,
    at: KeyPath = (),
    *,
    words: Mapping[str, str] | None = None,
) -> None:
    """Add each mistake that pydantic found to the problems."""
    for number, detail in enumerate(error.errors(include_url=False)):
        path, one_of_two = _path(detail)
        if path is not None:
            message, hint = _sentence(detail, path, one_of_two=one_of_two, model=model, guesses=number < MOST_GUESSES)
            if words is not None and detail["type"] in words:
                message = f"must be {words[detail['type']]}, not {_as_json(detail['input'])}"
            problems.add(at + path, message, hint)


def _path(detail: ErrorDetails) -> tuple[KeyPath | None, bool]:
    """The path in the file, and whether two types fit there. The path is None if the other type's error is the one shown."""
    path = detail["loc"][:-1] if detail["loc"][-1:] == ("[key]",) else detail["loc"]
    branch = path.index("inherit_env") + 1 if "inherit_env" in path[:-1] else len(path)
    if path[branch : branch + 1] == ("bool",):
        return (None if isinstance(detail["input"], list) else path[:branch]), True
    if path[branch : branch + 1] == ("tuple[str, ...]",):
        return (None if detail["type"] == "tuple_type" else path[:branch] + path[branch + 1 :]), True
    return path, False


def _sentence(
    detail: ErrorDetails, path: KeyPath, *, one_of_two: bool, model: type[BaseModel], guesses: bool
) -> tuple[str, str]:
    """Returns the mistake and the way out. With `guesses`, the way out of an unknown key is the key that was probably meant."""
    kind, value = detail["type"], detail["input"]
    message, hint = f"must be {_EXPECTED.get(kind, 'another kind of value')}, not {quoted(value)}", ""
    match kind:
        case "extra_forbidden":
            message, hint = "unknown key", _meant_key(model, path) if guesses else ""
        case "literal_error" | "enum":
            message, hint = _not_among(value, re.findall("'([^']*)'", detail["ctx"]["expected"]), path)
        case "missing":
            message = "is missing"
        case "value_error":
            message = str(detail["ctx"]["error"])
        case "json_invalid":
            too_deep = "recursion" in detail["ctx"]["error"]
            message = "is nested too deeply" if too_deep else "holds half of a surrogate pair, which is not text"
        case "greater_than_equal":
            message = f"must be {detail['ctx']['ge']} or more, not {quoted(value)}"
        case "less_than_equal":
            message = f"must be {detail['ctx']['le']} or less, not {quoted(value)}"
        case "dict_type" | "model_type" if path == ("hooks",):
            hint = A_TABLE_EACH
        case "string_type" if "env" in path and not isinstance(value, dict | list):
            hint = f"in quotes: {quoted(quoted(value))}"
        case "bool_type" if one_of_two:
            message = f"must be true, false or a list of names, not {quoted(value)}"
    return message, hint


def _as_json(value: Any) -> str:
    """A value of a JSON document, with its type."""
    if isinstance(value, dict | list | tuple):
        return "an object" if isinstance(value, dict) else "a list"
    kind = (
        "the string " if isinstance(value, str) else "" if value is None or isinstance(value, bool) else "the number "
    )
    return kind + quoted(value)


_EXPECTED = {
    "float_type": "a number of seconds above 0",
    "greater_than": "a number of seconds above 0",
    "finite_number": "a number of seconds above 0",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table of keys and values",
    "model_type": "a table of keys and values",
}


def _not_among(value: Any, choices: list[str], path: KeyPath) -> tuple[str, str]:
    if not _STAGE_FIELDS.isdisjoint(path[-2:]):
        is_event = isinstance(value, str) and (value in EVENT_KINDS or value in RUNTIME_KINDS)
        return f"{quoted(value)} is not a stage", "it is an event: name it in observe" if is_event else meant(
            value, choices
        )
    return f"{quoted(value)} is not one of {', '.join(choices)}", ""


def _meant_key(model: type[BaseModel], path: KeyPath) -> str:
    """A hint for an unknown key: the one that was probably meant, the place where it belongs, or all keys that there are."""
    here: Any = model
    for step in path[:-1]:
        here = _alone(
            here.model_fields[step].annotation if _is_model(here) else next(filter(_is_model, get_args(here)))
        )  # else: dict[str, ...] or tuple[..., ...]
    key = str(path[-1])
    known = [field.alias or field.serialization_alias or name for name, field in here.model_fields.items()]
    if issubclass(here, HookSpec):
        other = next((kind for kind, spec in every("kinds").items() if key in spec.load().model_fields), None)
        if other is not None:
            return "a hook is of one kind" if other == key else f"it is for a hook with {other}"
        of_extensions = (*(every("kinds") if here is HookSpec else ()), *every("hook_keys"))
        known = [name for name in (*known, *of_extensions) if name not in here.SET_ELSEWHERE]
        broken = [] if nearest(key, known) else others()[1]
        if broken:
            return "; ".join(f"it may be a key of {one.package}, which cannot be used: {one.why}" for one in broken)
    usual = MEANT.get(key.lower())
    if usual in known:
        return meant(usual, known)
    tables = ((name, _alone(field.annotation)) for name, field in here.model_fields.items())
    inside = [f"{name}.{key}" for name, table in tables if _is_model(table) and key in table.model_fields]
    if here is model and not inside and "hooks" in known and (key in HookSpec.model_fields or find("kinds", key)):
        return "in the table of a hook: [hooks.NAME]"
    return meant(key, inside if len(inside) == 1 and not nearest(key, known) else known)


def _alone(annotation: Any) -> Any:
    """Returns the type without None: the model among its parts, or else the first part."""
    kinds = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    return next(filter(_is_model, kinds), kinds[0])


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
