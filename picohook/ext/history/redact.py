"""Replaces secrets in text that is printed or written, by the guards' own lists."""

from __future__ import annotations

import re
from typing import Any

from ..guards import names

HIDDEN = "[secret]"
_NAMED = rf"[\w.-]*(?:{names.secret_name()})"
_ASSIGNED = rf"(?i:(?<![a-z])(?P<name>{_NAMED}[\w-]*[\"']?\s*[:=]\s*[\"']?))(?P<value>[^\s\"'&;,]{{4,}})"
_SECRETS = re.compile("|".join((*names.secrets(), _ASSIGNED)))


def redacted(value: Any) -> Any:
    """Returns the JSON value with `[secret]` in place of what looks like a secret."""
    if isinstance(value, str):
        return _SECRETS.sub(lambda found: (found["name"] or "") + HIDDEN, value)
    if isinstance(value, dict):
        return {redacted(name): HIDDEN if _hides(name, one) else redacted(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(one) for one in value]
    return value


def _hides(name: str, value: Any) -> bool:
    return isinstance(value, str) and bool(value) and re.fullmatch(f"(?i){_NAMED}", name) is not None
