"""`picoclaw = "0.2.9"`: hooks that were written for a version of PicoClaw."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, ClassVar

from ...config.document import Config
from ...config.problems import Problems
from ...config.table import Table
from . import PicoClaw

OLDEST: PicoClaw = "0.2.8"
_SHOWN: dict[PicoClaw, str] = {
    "0.2.8": "as PicoClaw 0.2.8: events are hook.event; for 0.2.9 and newer add --picoclaw 0.2.9",
    "0.2.9": "as PicoClaw 0.2.9: events are hook.runtime_event, before_llm leaves tools and system messages as they are"
    " (0.2.9+edits lets hooks change them)",
    "0.2.9+edits": "as PicoClaw 0.2.9, and before_llm may change tools and system messages",
}
"""The description of a configuration, by version."""


def settings_of(version: PicoClaw, own: Collection[str] = ()) -> dict[str, Any]:
    """The settings that this version of PicoClaw gives a hook, except those in `own`, which the hook sets itself."""
    if version == OLDEST:
        return {}
    settings: dict[str, Any] = {"events": "runtime"}
    if version == "0.2.9":
        settings["may_edit"] = ("messages",)
    return {name: value for name, value in settings.items() if name not in own}


class PicoClawTable(Table):
    """The version of PicoClaw whose events and before_llm the hooks expect."""

    bare: ClassVar[str] = "version"

    version: PicoClaw

    def apply(self, config: Config, problems: Problems) -> Config:
        del problems
        hooks = tuple(
            spec.model_copy(update=settings_of(self.version, spec.model_fields_set))
            if config.key_paths[spec.name].startswith("hooks")
            else spec  # of another table
            for spec in config.hooks
        )
        return replace(config, hooks=hooks)

    def about(self) -> tuple[Any, str]:
        return self.version, _SHOWN[self.version]
