"""The effect of handlers' results in one word, in the vendor's own agent or in strict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ...errors import HookError
from ...model.decisions import AbortTurn, Deny, Modify, Pause, Retry, Skip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...model.decisions import Decision
    from ...model.payloads import Payload
    from .contract import Failures, HandlerInput, HandlerResult, Rule
    from .vendor import Vendor

Word: TypeAlias = Literal["passes", "approves", "silent", "asks", "changes", "pauses", "denies"]

_WORDS: tuple[tuple[type[Decision] | tuple[type[Decision], ...], Word], ...] = (
    ((Deny, AbortTurn, Skip, Retry), "denies"),
    (Pause, "pauses"),
    (Modify, "changes"),
)


class Effect(NamedTuple):
    """The effect of a handler's result on a payload."""

    word: Word
    why: str = ""
    """The reason of a refusal, or what went wrong."""
    failed: bool = False
    """Whether the handler failed. A failure decides only in strict."""

    @property
    def refuses(self) -> bool:
        """Whether the call does not run, or runs only if a person agrees."""
        return self.word in {"denies", "asks", "pauses"}


def effect(
    dialect: Vendor,
    event: str,
    results: Sequence[tuple[Rule, HandlerResult]],
    handler_input: HandlerInput,
    payload: Payload,
    *,
    failures: Failures,
) -> Effect:
    """Returns what handlers with these rules and results do to a payload."""
    answers = [dialect.decode(event, rule, result, failures) for rule, result in results]
    try:
        verdict = dialect.merge(event, answers, handler_input, payload, failures)
    except HookError as error:
        return Effect("denies", str(error), failed=True)
    decision, failed = verdict.decision, bool(verdict.failures)
    why = str(verdict.failures[0]) if failed else getattr(decision, "reason", "") or ""
    word = next((word for kind, word in _WORDS if isinstance(decision, kind)), None)
    if word is None or (word == "changes" and verdict.asks):
        is_approval = dialect.events[event].stage == "approve_tool"
        word = "asks" if verdict.asks else "silent" if verdict.silent else "approves" if is_approval else "passes"
    return Effect(word, why, failed)
