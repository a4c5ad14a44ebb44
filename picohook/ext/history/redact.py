"""Replaces secrets in text that is printed or written."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "[secret]"
_NAMED = r"(?:api[-_]?key|access[-_]?key|secret|token|passw(?:or)?d|passphrase|private[-_]?key|credentials?)"
_SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{20,}|\bnpm_\w{30,}"
    r"|\bsk-[\w-]{16,}|\bxox[abeoprs]-[\w-]{10,}|\bAIza[\w-]{30,}|\bhf_\w{30,}|\b[rs]k_(?:live|test)_\w{16,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?<=://)[^\s:/@'\"]*:[^\s/@'\"]+(?=@)"
    r"|(?i:(?<=bearer )|(?<=authorization: basic ))[\w.~+/=-]{8,}"
    rf"|(?i:(?<![a-z])(?P<name>[\w.-]*{_NAMED}[\w-]*[\"']?\s*[:=]\s*[\"']?))(?P<value>[^\s\"'&;,]{{4,}})",
    re.DOTALL,
)


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
    return isinstance(value, str) and bool(value) and re.fullmatch(rf"(?i)[\w.-]*{_NAMED}", name) is not None
