"""The table `[http]`."""

from dataclasses import replace

from pydantic import Field

import picohook


class HttpTable(picohook.Table):
    """What all hooks at a URL have in common."""

    key_env: str = Field(description="The environment variable with the key of the signatures.")

    def apply(self, config: picohook.Config, _problems: picohook.Problems) -> picohook.Config:
        hooks = [one.model_copy(update={"key_env": self.key_env}) if one.kind == "url" else one for one in config.hooks]
        return replace(config, hooks=tuple(hooks))
