"""Merge patches (RFC 7396). Standard library only: the host and the SDK share it."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `wire`
if TYPE_CHECKING:
    from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with the patch applied. The target itself is not changed."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
