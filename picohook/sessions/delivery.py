"""Delivery: the part of a tool's result that goes to the user, and how it is brought there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model.payloads import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Delivery:
    """The part of a tool's result that goes to the user."""

    text: str
    media: tuple[Any, ...]
    tool: str
    channel: str
    chat_id: str


async def deliver_result(
    call: ToolCall, result: ToolResult, deliver: Callable[[Delivery], Any] | None, undelivered: list[Delivery]
) -> ToolResult:
    """Deliver the user's part of a result: the text, and the media if `response_handled` is set.

    Returns the result as the model gets it. If `deliver` fails, the result says so. Without a `deliver`, the delivery is added
    to `undelivered`, and the model gets the media.
    """
    text = "" if result.silent else result.for_user
    media = tuple(result.media) if result.response_handled else ()
    if not (text or media):
        return result
    delivery = Delivery(text, media, call.tool, call.channel, call.chat_id)
    if deliver is None:
        undelivered.append(delivery)
        return result.model_copy(update={"response_handled": False}) if media else result
    try:
        sent = deliver(delivery)
        if hasattr(sent, "__await__"):
            await sent
    except Exception as error:  # a channel can fail in any way; the model can say so
        told = f"{result.for_llm}\nDelivery to the user failed: {str(error) or type(error).__name__}".strip()
        return result.model_copy(update={"is_error": True, "for_llm": told, "response_handled": False})
    return result
