"""Hooks for agents of other frameworks: a module for each framework, and an extra of the same name."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..wire.extras import needs


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import a framework in this block. If it is not installed, raises `ModuleNotFoundError` with the name of the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = name.replace("-", "_")
        what = needs(f"picohook.integrations.{module}", str(error.name), name)
        raise ModuleNotFoundError(what, name=error.name) from None
