"""`[audit]`: the audit logs that configurations ask for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, PrivateAttr

from ...config.table import Consent, Table
from ...engine.part import Part
from ...model.spec import Size  # noqa: TC001 - pydantic reads it at run time
from ...process.environment import key_of
from .log import KEY, AuditLog, RequiredAuditLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from ...config.document import Config
    from ...config.problems import Problems
    from ...host import Host


class AuditTable(Table):
    """The audit log to keep: questions to hooks and their answers, in a file in which every later change can be detected."""

    path: str = Field(min_length=1, description="The file, relative to this one. Records are appended.")
    payloads: bool = Field(default=False, description="Whether payloads and texts are written, not only their hashes.")
    required: bool = Field(default=False, description="Whether a call is denied that cannot be logged.")
    max_size: Size | None = Field(default=None, gt=0, description="Bytes after which the log continues in a new file.")
    _below: Path | None = PrivateAttr(None)
    """The project of a file that was found: its log lies in there."""

    def placed(self, directory: Path) -> Self:
        return self.model_copy(update={"path": os.path.normpath(directory / self.path)})

    def apply(self, config: Config, problems: Problems) -> Config:
        if config.found:
            self._below = config.project
            if not Path(self.path).is_relative_to(config.project):
                message = f"lies outside of {config.project}: a project's file writes only in the project"
                problems.add("audit.path", message, "set it in your own configuration")
        return config

    def consent(self) -> Iterable[Consent]:
        yield Consent(f"picohook writes an audit log: {self.path}", writes=self.path)

    @classmethod
    def part(cls, tables: Sequence[Self]) -> AuditPart:
        return AuditPart(tables)

    def log(self) -> AuditLog:
        """Returns the log."""
        kind = RequiredAuditLog if self.required else AuditLog
        return kind(self.path, payloads=self.payloads, key=key_of(KEY), max_size=self.max_size, below=self._below)


class AuditPart(Part):
    """The logs of one host: one for each file. The first table that names a file sets its options. A reload changes none."""

    def __init__(self, tables: Sequence[AuditTable]) -> None:
        by_file = {os.path.realpath(table.path): table for table in reversed(tables)}
        self.logs = [table.log() for table in reversed(by_file.values())]
        self.listeners = self.logs

    async def open(self, host: Host) -> None:
        self._log = host.log

    async def aclose(self) -> None:
        for log in self.logs:
            if log.failures:
                self._log.warning("records could not be written to the audit log", records=log.failures, path=log.path)
            self._log.info("audit log", path=log.path, records=log.records, head=log.head)


def log_at(path: str | os.PathLike[str]) -> AuditTable:
    """`Host(audit=path)`: a log besides those of the configuration."""
    return AuditTable(path=os.path.abspath(path))
