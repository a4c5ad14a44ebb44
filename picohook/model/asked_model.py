"""A model that a hook asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..errors import Problem


@dataclass(frozen=True, slots=True)
class AskedModel:
    """The model that a hook asks, as the configurations name it."""

    file: str
    """The file that names it; empty if none does."""
    shown: str
    """The model, for people; empty if there is none."""
    problem: Problem | None
    """The reason why it cannot be asked here; None if it can."""
    client: Callable[[], Any]
    """Returns a function that asks it. Making it may read certificates, which takes a while."""
