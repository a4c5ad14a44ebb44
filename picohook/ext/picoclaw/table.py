"""`picoclaw = "0.2.9"`: a native file whose hooks were written for a version of PicoClaw."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from ...config.document import PicoClaw  # noqa: TC001 - pydantic reads it at run time
from ...config.table import Table
from .dialect import settings_of

if TYPE_CHECKING:
    from ...config.document import Config
    from ...config.problems import Problems
    from ...model.spec import HookSpec


class PicoClawTable(Table):
    """The version of PicoClaw whose events and before_llm the hooks expect."""

    bare: ClassVar[str] = "version"

    version: PicoClaw

    def apply(self, config: Config, problems: Problems) -> Config:
        del problems
        hooks = tuple(self._for_version(spec, config) for spec in config.hooks)
        return replace(config, hooks=hooks, picoclaw=self.version)

    def _for_version(self, spec: HookSpec, config: Config) -> HookSpec:
        """The hook with the settings of this version; one that another table has added stays as it is."""
        if not config.key_paths[spec.name].startswith("hooks"):
            return spec
        return spec.model_copy(update=settings_of(self.version, spec.model_fields_set))
