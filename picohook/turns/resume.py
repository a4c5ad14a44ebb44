"""Resuming after a pause: which hooks have decided already, and which are asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import PicohookError
from ..wire.words import PAUSE

if TYPE_CHECKING:
    from ..engine.engine import Answered, Engine
    from ..model.decisions import Outcome
    from ..model.payloads import Payload


def decided_in(outcome: Outcome[Any]) -> set[str]:
    """The hooks that have decided: all that were asked, but not the one that paused."""
    return {entry.hook for entry in outcome.trail if not entry.skipped and entry.action != PAUSE}


def guards_of(host: Engine) -> set[str]:
    """The hooks that are asked again about a call that was changed."""
    return {hook.name for hook in host.hooks if hook.spec.guard}


def not_asked_again(host: Engine, outcome: Outcome[Any], given: Payload) -> set[str]:
    """The guards whose decision no longer counts: the payload was changed, and the pause came before they were asked again."""
    return set() if outcome.payload is given else guards_of(host)


def require_taken(answered: Answered | None, outcome: Outcome[Any]) -> None:
    """Raise `PicohookError` if the answer in place of the hook that paused is wrong: that is the embedder's mistake."""
    if answered is not None and outcome.trail[0].error is not None:
        raise PicohookError(f"the answer for hook {answered[0]} cannot be taken: {outcome.trail[0].error}")
