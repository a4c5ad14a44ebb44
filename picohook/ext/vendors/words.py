"""The words in `vendor.toml`: what the fields of a vendor's JSON stand for, at its events and in its answers.

A field has a constant, or a word with a dollar sign. A field whose word has no value is left out, and one with a question mark
also where its value is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...model.conversation import text_of
from ...model.payloads import Payload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .contract import Facts
    from .tools import ShownCall


class Told(NamedTuple):
    """What handlers are told about."""

    event: str
    payload: Any
    call: ShownCall | None
    facts: Facts
    vendor: Any
    """The `Vendor`."""


NULL = "$null"
EVENT_WORDS: dict[str, Callable[[Told], Any]] = {
    "null": lambda _told: None,
    "event": lambda told: told.event,
    "session": lambda told: told.payload.meta.session_key or told.facts.session,
    "turn": lambda told: told.payload.meta.turn_id,
    "stage_turn": lambda told: told.payload.meta.turn_id if isinstance(told.payload, Payload) else None,
    "agent": lambda told: told.payload.meta.turn_id if told.payload.meta.parent_turn_id else None,
    "agent_type": lambda told: told.payload.meta.agent_id if told.payload.meta.parent_turn_id else None,
    "cwd": lambda told: told.facts.project,
    "now": lambda told: told.facts.now,
    "model": lambda told: getattr(told.payload, "model", None) or "",
    "tool": lambda told: told.call and told.call.tool,
    "input": lambda told: told.call and told.call.input,
    "call_id": lambda told: told.payload.tool_call_id or "",
    "text": lambda told: told.payload.result.for_llm,
    "result": lambda told: told.payload.result.for_llm,
    "error": lambda told: told.payload.result.for_llm or told.payload.error or "",
    "took_ms": lambda told: told.payload.duration // 1_000_000,
    "prompt": lambda told: told.payload.prompt,
    "source": lambda told: "resume" if told.payload.messages else "startup",
    "answer": lambda told: text_of(told.payload.response),
    "messages": lambda told: len(told.payload.messages),
    "blocked": lambda told: told.facts.blocks > 0,
    "blocks": lambda told: told.facts.blocks,
}
"""The values of words at an event. A vendor adds its own."""


def filled(fields: Mapping[str, Any], value: Callable[[str], Any]) -> dict[str, Any]:
    """The fields with the values of their words."""
    made = {}
    for name, word in fields.items():
        found = value(name_of(word)) if name_of(word) else word
        if word == NULL or (found is not None and (found or not str(word).endswith("?"))):
            made[name] = found
    return made


def name_of(word: Any) -> str:
    """The name of a word; empty for a constant."""
    return word.strip("$?") if isinstance(word, str) and word.startswith("$") else ""
