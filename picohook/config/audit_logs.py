"""The audit logs that configurations want kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..listeners.audit import AuditLog, RequiredAuditLog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .load import Config

KEY = "PICOHOOK_AUDIT_KEY"
"""The variable that has the key of every log that is not made in code."""


def audit_logs(configs: Iterable[Config], named: str | os.PathLike[str] | None = None) -> list[AuditLog]:
    """One for each file that they name, as the first that names it says; and the one that the user named."""
    logs: dict[str, AuditLog] = {}
    key = os.environ.get(KEY, "")
    for audit in (config.audit for config in configs):
        if audit is not None:
            kind = RequiredAuditLog if audit.required else AuditLog
            log = kind(audit.path, payloads=audit.payloads, key=key, max_size=audit.max_size)
            logs.setdefault(os.path.realpath(audit.path), log)
    if named is not None:
        logs.setdefault(os.path.realpath(named), AuditLog(named, key=key))
    return list(logs.values())
