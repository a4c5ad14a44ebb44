"""The difference of two payloads as the smallest edit.

Values that a handler did not change are not sent, so an untouched number never becomes a Python float.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the merge patch from `before` to `after`, and the fields that have to be replaced as a whole."""
    patch: dict[str, Any] = {}
    whole: dict[str, Any] = {}
    for name in [*after, *(name for name in before if name not in after)]:
        old, new = before.get(name), after.get(name)
        if new is None:
            if old is not None:
                patch[name] = None
        elif not same(old, new):
            try:
                patch[name] = _patch(old, new)
            except ValueError:
                whole[name] = new
    return patch, whole


def _patch(old: Any, new: Any) -> Any:
    """Returns the RFC 7396 patch from one value to another. Raises `ValueError` if it would have to set a null."""
    if not isinstance(new, dict):
        return new
    if not isinstance(old, dict):
        old = {}
    patch: dict[str, Any] = dict.fromkeys(name for name in old if name not in new)
    for name, value in new.items():
        if name in old and same(old[name], value):
            continue
        if value is None:
            raise ValueError(name)
        patch[name] = _patch(old.get(name), value)
    return patch


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: true is not 1."""
    if one.__class__ is not other.__class__:
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
