"""The code that the `join` functions of the dialects share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...model.decisions import CONTINUE, Continue, Modify
from ...model.trail import Notes
from .contract import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...model.decisions import Decision
    from .contract import HandlerAnswer, HandlerInput

UNEXPLAINED = "blocked by a hook, which gave no reason"


def reason_of(answers: Sequence[HandlerAnswer], verdict: str = "deny") -> str:
    """The reasons of the answers with this verdict; empty without one."""
    return shortened("\n".join(answer.reason for answer in answers if answer.verdict == verdict and answer.reason))


def notes_of(answers: Sequence[HandlerAnswer], between: str = "\n\n") -> Notes | None:
    """The texts of the answers for the user and for the model; None if there are none."""
    contexts = between.join(answer.context for answer in answers if answer.context)
    messages = "\n".join(answer.message for answer in answers if answer.message)
    return Notes(messages, contexts) if contexts or messages else None


def for_user(notes: Notes | None) -> Notes | None:
    """The notes without their text for the model; None if no text is left."""
    return Notes(notes.system_message) if notes is not None and notes.system_message else None


def let_pass(notes: Notes | None, changes: dict[str, Any] | None = None) -> Decision:
    """The decision that lets a payload pass, with changes to it if there are any."""
    if changes:
        return Modify(changes, notes=notes)
    return Continue(notes=notes) if notes is not None else CONTINUE


def changed_arguments(answers: Sequence[HandlerAnswer], handler_input: HandlerInput) -> dict[str, Any] | None:
    """The arguments of the last handler that changed them; None if none did."""
    inputs = [answer.input for answer in answers if answer.input is not None]
    return handler_input.call.arguments(inputs[-1]) if inputs and handler_input.call is not None else None
