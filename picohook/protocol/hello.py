"""The handshake: writes the first request to a hook, and reads the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..wire import words
from ..wire.text import cut, escape
from .codec import encode

if TYPE_CHECKING:
    from collections.abc import Sequence


def hello_params(name: str, modes: Sequence[str]) -> bytes:
    """The params of `hook.hello`."""
    return encode({"name": name, "version": words.VERSION, "modes": list(modes)})


def refusal(result: Any) -> str | None:
    """The reason why an answer to hello is a refusal; None if it is an acceptance."""
    if not isinstance(result, dict):
        return None
    version = result.get("version", words.VERSION)
    if result.get("ok") is False:
        reason = next((result[key] for key in ("reason", "error", "message") if isinstance(result.get(key), str)), "")
        return f"it says no: {escape(cut(reason, words.MAX_REASON))}" if reason else "it says no, and gives no reason"
    if type(version) is not int or version != words.VERSION:
        return f"it speaks version {escape(cut(repr(version), 80))}, and this host speaks {words.VERSION}"
    return None


def capabilities(result: Any) -> frozenset[str]:
    """The capabilities in an answer to hello that the host knows."""
    offered = result.get("capabilities") if isinstance(result, dict) else None
    if not isinstance(offered, dict):
        return frozenset()
    return words.CAPABILITIES & {name for name, wanted in offered.items() if wanted is True}


def slots_offered(result: Any) -> int | None:
    """The number of requests that the hook accepts at once; None if its answer to hello does not say."""
    offered = result.get("max_in_flight") if isinstance(result, dict) else None
    return offered if type(offered) is int and offered > 0 else None
