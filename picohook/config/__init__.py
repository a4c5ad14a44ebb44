"""Configuration: which hooks there are, and whether they may run.

The native format in TOML, YAML or JSON, and PicoClaw's JSON and j-cli's YAML as they are. Whatever is wrong with a file is
said at once, in one `ConfigError`. A file that was only found, not named, runs nothing before it is trusted: see `trust`.
"""

from __future__ import annotations

from typing import Any

from .load import Config, find, load

__all__ = ["Config", "find", "load", "schema"]


def schema() -> dict[str, Any]:
    """The JSON Schema of the native format."""
    from .dialects import native  # noqa: PLC0415 - pydantic

    return native.schema()
