"""Delivery: the part of a tool's result that goes to the user."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Delivery:
    """The part of a tool's result that goes to the user."""

    text: str
    media: tuple[Any, ...]
    tool: str
    channel: str
    chat_id: str
