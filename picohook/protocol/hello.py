"""The handshake: writes the first request to a hook, and reads the answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..wire import words
from ..wire.text import cut, escape
from .codec import encode


def hello_params(name: str, modes: Sequence[str]) -> bytes:
    """The params of `hook.hello`."""
    return encode({"name": name, "version": words.VERSION, "modes": list(modes)})


def refusal(answer: Mapping[str, Any]) -> str | None:
    """The reason why an answer to hello is a refusal; None if it is an acceptance."""
    if answer.get("ok") is False:
        reason = next((answer[key] for key in ("reason", "error", "message") if isinstance(answer.get(key), str)), "")
        return f"it says no: {escape(cut(reason, words.MAX_REASON))}" if reason else "it says no, and gives no reason"
    version = answer.get("version", words.VERSION)
    if type(version) is not int or version != words.VERSION:
        return f"it speaks version {escape(cut(repr(version), 80))}, and this host speaks {words.VERSION}"
    return None


def capabilities(answer: Mapping[str, Any]) -> frozenset[str]:
    """The capabilities in an answer to hello that the host knows."""
    offered = answer.get("capabilities")
    return frozenset(name for name in words.CAPABILITIES if isinstance(offered, dict) and offered.get(name) is True)


def slots_offered(answer: Mapping[str, Any]) -> int | None:
    """The number of requests that the hook accepts at once; None if its answer to hello does not say."""
    offered = answer.get("max_in_flight")
    return offered if type(offered) is int and offered > 0 else None
