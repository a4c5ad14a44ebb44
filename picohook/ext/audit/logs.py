"""The audit logs that configurations ask for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .log import AuditLog, RequiredAuditLog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...config.document import Config

KEY = "PICOHOOK_AUDIT_KEY"
"""The environment variable with the key of every log that is not made in code."""


def audit_logs(configs: Iterable[Config], named: str | os.PathLike[str] | None = None) -> list[AuditLog]:
    """Returns a log for each file that the configurations name, and for `named`. The first to name a file sets its options."""
    logs: dict[str, AuditLog] = {}
    key = os.environ.get(KEY, "")
    for config in configs:
        if (table := config.audit) is not None:
            kind = RequiredAuditLog if table.required else AuditLog
            log = kind(
                **table.model_dump(exclude={"required"}), key=key, below=config.project if config.found else None
            )
            logs.setdefault(os.path.realpath(table.path), log)
    if named is not None:
        logs.setdefault(os.path.realpath(named), AuditLog(named, key=key))
    return list(logs.values())
