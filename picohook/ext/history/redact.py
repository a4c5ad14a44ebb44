"""Replaces secrets in text that is printed or written, by the guards' own lists."""

import re
from typing import Any

from ..guards import names

HIDDEN = "[secret]"
_NAMED = rf"(?:{names.secret_name()})"
_INITIALS = "".join({name[0] + name[0].upper() for name in names.secret_name().split("|")})
# Nothing of a name is read but from the word on, and not much: otherwise a long text of digits and letters takes minutes.
_ASSIGNED = rf"(?=[{_INITIALS}])(?i:(?P<name>{_NAMED}[\w-]{{0,64}}[\"']?\s*[:=]\s*[\"']?))(?P<value>[^\s\"'&;,]{{4,}})"
_NAME = re.compile(rf"(?i)[\w.-]*{_NAMED}[\w.-]{{0,64}}")
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
    return isinstance(value, str) and bool(value) and _NAME.fullmatch(name) is not None
