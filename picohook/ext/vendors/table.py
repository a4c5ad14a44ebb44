"""`[[foreign]]`: hook files of other agents."""

from dataclasses import replace
from typing import ClassVar

from ...config.document import Config
from ...config.problems import Problems
from ...config.table import Table
from .files.named_files import read_files
from .foreign_file import ForeignFile


class ForeignTable(Table):
    """Hook files of other agents, run as they are."""

    bare: ClassVar[str] = "files"
    files: tuple[ForeignFile, ...]

    def apply(self, config: Config, problems: Problems) -> Config:
        """Returns the configuration with the hooks of these files, and with time for them in the chain."""
        more = read_files(self.files, problems, config, taken=config.key_paths)
        return replace(
            config,
            hooks=config.hooks + more.hooks,
            key_paths={**config.key_paths, **more.key_paths},
            timeouts=more.timeouts,
            warnings=config.warnings + more.warnings,
        )
