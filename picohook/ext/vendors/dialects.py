"""The vendors' dialects, by the names in this extension's row. A dialect is a folder of its name.

The folder itself recognises the vendor's files. `contract` has the `Dialect`, `file` the `Form` of the files, and `shim` the
`VendorAgent`. Each is imported when it is first needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from . import extension

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .contract import Dialect
    from .files.form import Form
    from .shim.vendor import VendorAgent

rows = extension.dialects
NAMES = tuple(rows)


def dialect_of(name: str) -> Dialect:
    """The contract of a vendor with its hooks."""
    contract: Dialect = import_module(f".{name}.contract", __package__).CONTRACT
    return contract


def form_of(name: str) -> Form:
    """The form of a vendor's files."""
    form: Form = import_module(f".{name}.file", __package__).FORM
    return form


def agent_of(name: str) -> VendorAgent:
    """A vendor's agent, for the shim. Raises `PicohookError` if its folder has no `shim.py`."""
    module = f"{__package__}.{name}.shim"
    try:
        agent: VendorAgent = import_module(module).AGENT
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise PicohookError(f"the shim does not know {rows[name].title}: there is no module {module}") from None
    return agent


def vendor_of(document: dict[str, Any], path: Path) -> str | None:
    """The dialect of a file, by its path and its form; None if neither shows it. The last one in the row that takes it wins."""
    return next((name for name in reversed(NAMES) if extension.dialects[name].is_meant.load()(document, path)), None)


def has_event(document: Mapping[str, Any], events: frozenset[str]) -> bool:
    """Whether the `hooks` of a document have one of these events."""
    hooks = document.get("hooks")
    return isinstance(hooks, dict) and not events.isdisjoint(hooks)
