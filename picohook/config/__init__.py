"""Configuration: which hooks there are, and whether they may run.

The native format is TOML, YAML or JSON. Extensions read the files of other systems as they are. One `ConfigError` names every
mistake of a file. A file that was found, and not named by the user, runs nothing before it is trusted: see `trust`.
"""

from typing import Any

from .document import Config
from .load import load

__all__ = ["Config", "load", "schema"]


def schema() -> dict[str, Any]:
    """The JSON Schema of the native format."""
    from . import native  # pydantic

    return native.schema()
