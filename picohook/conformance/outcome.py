"""The ends of a check: it returns if the requirement holds, and raises `Failed` or `Skipped` if not."""

import json
import re
from collections import Counter
from math import isinf
from typing import Any

from ..wire.text import escape, shortened

SHOWN_OF_TEXT = 300
"""The most bytes of a message that are shown."""
PART = 40
"""The most characters that are shown where two texts differ."""


class Failed(Exception):  # noqa: N818 - the outcome of a check
    """The requirement does not hold."""

    def __init__(self, expected: str, said: str) -> None:
        super().__init__(f"expected {expected}; {said}")
        self.expected = expected
        self.said = said


class Skipped(Exception):  # noqa: N818
    """The requirement does not apply to this hook, which does nothing of the kind."""


def difference(wanted: Any, found: Any, place: str) -> str | None:
    """Returns where and how a value differs from the JSON that is wanted; None if it is the same. 1 is neither true nor 1.0."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted({*wanted, *found}):
            inner = f"{place}.{key}"
            if key not in wanted or key not in found:
                return f"{inner} is {'missing' if key in wanted else 'more than was there'}"
            if said := difference(wanted[key], found[key], inner):
                return said
        return None
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        both = enumerate(zip(wanted, found, strict=True))
        return next((said for at, (one, other) in both if (said := difference(one, other, f"{place}[{at}]"))), None)
    if json.dumps(wanted) == json.dumps(found):
        return None
    if isinstance(wanted, str) and isinstance(found, str):
        pairs = zip(wanted, found, strict=False)
        at = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(wanted), len(found)))
        return f"{place} differs at character {at}: {shown(found[at : at + PART])}, and not {shown(wanted[at : at + PART])}"
    return f"{place} is {shown(found)}, and not {shown(wanted)}"


def shown(value: Any) -> str:
    """Returns a value as JSON that can be shown: cut, and with control characters escaped. Bytes are shown as text."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=lambda data: data.decode("utf-8", "backslashreplace"))
    except RecursionError:
        text = "JSON that is nested too deeply to show"
    return escape(shortened(text, SHOWN_OF_TEXT))


def strictly(text: str) -> tuple[Any, list[str], list[str]]:
    """Returns a JSON value, the keys that an object in it has twice, and the numbers that JSON does not have.

    Raises `ValueError` or `RecursionError` for a text that is not JSON.
    """
    doubled: list[str] = []
    odd: list[str] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        doubled.extend(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        return dict(pairs)

    def number(text: str) -> float:
        odd.extend([text] if isinf(float(text)) else [])
        return float(text)

    value = json.loads(text, object_pairs_hook=build, parse_float=number, parse_constant=odd.append)
    return value, doubled, odd


def has_half_pair(value: Any) -> bool:
    """Whether a string in a JSON value has half a surrogate pair."""
    return re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False)) is not None
