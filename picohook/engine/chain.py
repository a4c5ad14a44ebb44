"""A chain: one payload at one stage, and what its hooks make of it.

`Chain.run` is the only loop over hooks, and `Chain.ask` the only place where a hook's failure is caught.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import anyio

from ..errors import EncodeError, HookTimeoutError, PicohookError
from ..hooks.base import Hook, Question
from ..model import failure_policy
from ..model.decisions import CONTINUE, Approve, Asked, Continue, Deny, Modify, Outcome, Pause, Retry
from ..model.encoded import CHANGED, Encoded
from ..model.payloads import Payload
from ..model.spec import SYSTEM_SHARE
from ..model.stages import Stage
from ..model.trail import OutcomeAction, TrailEntry
from ..wire import words
from .apply_decision import apply
from .listener import Account
from .part import Part
from .seat import Seat, entry_of
from .tool_ownership import Ownership

P = TypeVar("P", bound=Payload)

NEVER = float("inf")
NOT_WAITED_FOR = "not waited for: another approver denied"
NOT_NEEDED = "not asked: a part of the host answered"
ANSWERS_WITHIN = 5.0
"""Seconds in which a part has to answer in place of approvers."""
_PASSES = (Continue, Modify)
"""The decisions after which the next hook is asked."""
_ALLOWS = frozenset({words.CONTINUE, words.MODIFY, words.RESPOND})
"""The outcomes that a pause must not have without an answer."""


class Chain(Generic[P]):
    """One run of a stage's hooks: the payload as they have changed it so far, and the trail. It is used once.

    It knows nothing of mounting, sessions and processes: it is given seats in order, and a clock.
    """

    about_pauses: Sequence[Seat] = ()
    """The hooks that answer pauses."""
    owners: Ownership | None = None
    """Knows which hooks may run the tool of a call, and is told of edits."""
    pauses: tuple[str, ...] = ()
    """The reasons of the pauses so far."""
    paused: tuple[str, Asked[P]] | None = None
    """The first hook that paused, and its decision."""

    def __init__(
        self,
        stage: Stage[P],
        encoded: Encoded[P],
        clock: Callable[[], float],
        end: float,
        account: Account[P] | None = None,
    ) -> None:
        self.stage = stage
        self.encoded = encoded
        """The payload as the hooks so far have left it."""
        self.first = encoded.payload
        self.clock = clock
        self.end = end
        """The time at which the chain ends in any case. A person's time moves it on."""
        self.shared_end = NEVER
        """The end of the time that the system's hooks share. It is set when the first of them is asked."""
        self.account = account
        """Sees each question and answer, for listeners."""
        self.answering: Sequence[Part] = ()
        """The parts that may answer in place of approvers."""
        self.guards: dict[Seat, P | None] = {}
        """Each guard, and the payload that it saw; None if it saw none."""
        self.trail: list[TrailEntry] = []

    async def run(self, seats: Sequence[Seat], decided: Sequence[Seat] = ()) -> Outcome[P]:
        """Ask hooks one after another, each about the payload that the one before it left. Returns the outcome.

        A hook that neither continues nor modifies ends the chain. Guards are asked again if the final payload is not the one
        they saw. `decided` are guards that saw the first payload in an earlier chain. Where there are guards, a payload that
        was changed in place meanwhile is denied. Approvers are asked all at once, and must all say yes.
        """
        if self.stage.approves:
            return await self._approve(seats)
        for seat in decided:
            self.guards[seat] = self.first
        for seat in seats:
            if seat.shadow:
                self.trail.append(self._beside(seat))
                continue
            seen: P | None = None
            if seat.filter is None or seat.wants(self.encoded.payload):
                asked = await self.ask(seat, self.end if seat.has_usual_end else self._end_of(seat))
                self.trail.append(asked.entry)
                if seat.waits_for_person:
                    self.end += asked.entry.duration
                if asked.encoded is not self.encoded and self.owners is not None:
                    self.owners.edited(seat.hook, self.encoded.payload, asked.encoded.payload)
                if asked.decision is not CONTINUE and not isinstance(asked.decision, _PASSES):
                    if self.about_pauses and isinstance(asked.decision, Pause):
                        return await self._after_pause(seat, asked, seats)
                    return self.outcome(seat.name, asked)
                self.encoded = asked.encoded
                seen = asked.encoded.payload
            else:
                self.trail.append(seat.not_asked(self.stage.name))
            if seat.guard:
                self.guards[seat] = seen
        return await self._ask_guards() if self.guards else self.outcome()

    async def _after_pause(self, seat: Seat, asked: Asked[P], seats: Sequence[Seat]) -> Outcome[P]:
        """Go on after a pause with the hooks behind it and those that answer pauses. Returns the outcome.

        Those are asked after the others, but before the first that may run the tool itself. Without an answer about the payload
        of the outcome, the first pause stays.
        """
        about, owners, payload = self.about_pauses, self.owners, self.encoded.payload
        if seat in about:
            return self.outcome(seat.name, asked)
        self.pauses = (*self.pauses, asked.decision.reason)
        name, first = self.paused = self.paused or (seat.name, asked)
        if seat.guard:
            self.guards[seat] = payload
        left = [one for one in seats[seats.index(seat) + 1 :] if one not in about] if seat in seats else []
        at = next((index for index, one in enumerate(left) if owners and owners.owns(one.name, payload)), len(left))
        outcome = await self.run([*left[:at], *about, *left[at:]])
        if outcome.action not in _ALLOWS:
            return outcome
        last = {entry.hook: entry for entry in self.trail if not entry.skipped}
        answers = [one for one in about if one.name in last and last[one.name].failure is None]
        if any(one.name == outcome.hook or self.guards[one] is self.encoded.payload for one in answers):
            return outcome
        return self.outcome(name, replace(first, encoded=self.encoded))

    def _beside(self, seat: Seat) -> TrailEntry:
        """Ask a hook in shadow, and do not wait. Returns its entry in the trail."""
        if seat.filter is not None and not seat.wants(self.encoded.payload):
            return seat.not_asked(self.stage.name)
        return seat.hook.beside(self.stage, self.encoded, None if self.account is None else self.account.would)

    async def ask(self, seat: Seat, end: float, final: bool = False) -> Asked[P]:  # noqa: FBT001, FBT002 - for every question
        """Ask one hook. Returns its decision and answer. If it fails, its fallback decides, or else its `on_failure`.

        Each try has the hook's timeout, and ends at `end` in any case. A later answer does not count, even if the event loop
        stood still. With `final`, the hook may no longer change the payload. The chain itself is not changed. Raises
        `EncodeError` for a payload that has no JSON form.
        """
        stage, encoded, clock, hook = self.stage, self.encoded, self.clock, seat.hook
        encoded.params()  # before the `try`: an error here is the caller's, and not the hook's
        started = begun = clock()
        retries = 0
        left, degraded = encoded, ""
        while True:
            deadline, limit = begun + seat.timeout, begun + seat.longest
            if limit > end or seat.fallback is not None:
                deadline, limit = seat.deadlines(begun, end)
            question = Question(stage, encoded, deadline, limit, begun, retries, self.pauses)
            error = result = failure = answer = None
            try:
                if begun >= end:
                    whose = "of the system's hooks" if seat.is_system else "for the whole chain"
                    raise HookTimeoutError(f"the time {whose} was used up before it was asked")
                if self.account is not None:
                    self.account.asking(hook, encoded)
                decision = await hook.handle(question)
                if decision is not CONTINUE or stage.approves:
                    decision, left, result, error = apply(stage, hook, encoded, decision, final)
                ended = clock()
                if ended > deadline and not (ended <= limit and hook.takes_bytes):
                    raise HookTimeoutError
            except Exception as raised:  # a hook can fail in any way; none of them may reach the agent
                if retries < hook.spec.retry and not stage.approves and clock() < end:
                    retries += 1
                    begun = clock()
                    continue
                left, result = encoded, None
                cause, why = failure, error = failure_policy.cause(raised), failure_policy.describe(raised)
                decision = failure_policy.on_failure(stage, hook.name, hook.spec.on_failure, error)
                answer = getattr(raised, "answer", None)
                if seat.fallback is not None:
                    kept = clock() + (begun + seat.timeout - deadline)
                    instead = await self.ask(seat.fallback, min(end, max(kept, begun + seat.timeout)), final)
                    if instead.entry.failure is None:
                        degraded = f"{seat.fallback.name}: {failure}"
                        decision, left, result = instead.decision, instead.encoded, instead.result
                        failure, error = None, instead.entry.error
                ended = clock()
                hook.failures.add(stage.name, cause, why, decision.action, ended)
            break
        entry = entry_of(seat.name, decision, ended - started, error, failure, retries=retries, degraded=degraded)
        seat.count(stage.name, entry, ended)
        asked = Asked(decision, left, entry, result, answer)
        if self.account is not None:
            self.account.asked(hook, encoded, asked)
        return asked

    def outcome(
        self,
        name: str = "",
        asked: Asked[P] | None = None,
        *,
        refusal: str = "",
        approved: bool | None = None,
    ) -> Outcome[P]:
        """Returns the outcome of the hook or part that ended the chain, of the host's refusal, or of all hooks.

        No other code makes one.
        """
        stage, encoded, trail = self.stage, self.encoded, tuple(self.trail)
        # By position: an object made by keywords costs twice as much.
        if asked is not None:
            decision = asked.decision
            made = Outcome(stage.name, decision.action, asked.encoded.payload, decision.reason, trail, approved)
            made.result, made.hook, made.asked_about = asked.result, name, None if stage.approves else encoded.payload
            if isinstance(decision, Retry):
                made.feedback = decision.feedback
            return made
        if refusal:
            denied: OutcomeAction = words.DENY if words.DENY in stage.actions else words.ABORT_TURN
            return Outcome(stage.name, denied, encoded.payload, refusal, trail)
        passed: OutcomeAction = words.CONTINUE if encoded.payload is self.first else words.MODIFY
        outcome = Outcome(stage.name, passed, encoded.payload, "", trail, approved)
        outcome.asked = encoded
        return outcome

    def _end_of(self, seat: Seat) -> float:
        """Returns when this hook's time ends. The system's hooks together have a share of the time that is left.

        So slow ones cannot keep other hooks from being asked, whose failure may let the call continue.
        """
        if seat.is_system:
            self.shared_end = min(self.shared_end, self.end - (self.end - self.clock()) * SYSTEM_SHARE)
            return self.shared_end
        return NEVER if seat.waits_for_person else self.end

    async def _approve(self, seats: Sequence[Seat]) -> Outcome[P]:
        """Ask all approvers at once, if their filters match. After the first denial, the others are not waited for."""
        self.trail += [self._beside(seat) for seat in seats if seat.shadow]
        seats = [seat for seat in seats if not seat.shadow]
        wanting = approvers = [seat for seat in seats if seat.wants(self.encoded.payload)]
        early = await self._early_answer(wanting) if approvers and self.answering else None
        denied = early is not None and isinstance(early.decision, Deny)
        if early is not None:
            approvers = [seat for seat in wanting if seat.guard and not denied]
        answers = await self._ask_at_once(approvers) if approvers else {}
        for seat in seats:
            if seat.name in answers:
                self.trail.append(answers[seat.name].entry)
            else:
                why = NOT_WAITED_FOR if seat in approvers else NOT_NEEDED
                left_out = TrailEntry(seat.name, "", error=why)
                self.trail.append(left_out if seat in wanting else seat.not_asked(self.stage.name))
        if denied and early is not None:
            return self.outcome(early.entry.hook, early, approved=False)
        for seat in approvers:
            asked = answers.get(seat.name)
            if asked is not None and not isinstance(asked.decision, Approve):
                return self.outcome(seat.name, asked, approved=False)
        approved = len(answers) == len(approvers)
        if approved and answers and self.answering:
            await self._pass_on([(seat.hook, answers[seat.name].entry) for seat in approvers])
        outcome = self.outcome(approved=approved)
        if early is not None:
            outcome.hook, outcome.reason = early.entry.hook, early.decision.reason
        return outcome

    async def _pass_on(self, yeses: Sequence[tuple[Hook, TrailEntry]]) -> None:
        """Give the parts the grants of approvers, all of whom have said yes."""
        grants = [(hook, entry) for hook, entry in yeses if entry.grant is not None]
        if grants and self.encoded.intact:
            for part in self.answering:
                await self._told(part, part.granted, grants)

    async def _early_answer(self, wanting: Sequence[Seat]) -> Asked[P] | None:
        """Returns the first answer of a part in place of approvers. None if no part answers about the call as it is now."""
        approvers = [seat.hook for seat in wanting if not seat.guard]
        for part in self.answering:
            began = self.clock()
            if (decision := await self._told(part, part.answer, approvers)) is not None:
                self.trail.append(entry_of(_name(part), decision, self.clock() - began, None, None, retries=0))
                return Asked(decision, self.encoded, self.trail[-1], None, None)
        return None

    async def _told(self, part: Part, method: Callable[..., Any], more: Any) -> Approve | Deny | None:
        """Call a part's method with a copy of the call. Returns its answer. Its error is in the trail, and counts as None."""
        began = self.clock()
        try:
            answer: Any = method(self.encoded.payload.deep_copy(), more)
            if hasattr(answer, "__await__"):
                answer = await self._in_time(answer)
            if answer is not None and not self.encoded.intact:
                raise PicohookError(CHANGED)
            if answer is None or isinstance(answer, (Approve, Deny)):
                return answer
            raise TypeError(f"a part answers with Approve, Deny or None, not {answer!r}")
        except Exception as error:
            self.trail.append(TrailEntry(_name(part), "", self.clock() - began, failure_policy.describe(error)))
            return None

    async def _in_time(self, answer: Any) -> Any:
        """Await the answer of a part, during which other code runs. Raises `EncodeError` for a call that has no JSON form."""
        try:
            self.encoded.params()  # so that a change of the call is seen
        except EncodeError:
            answer.close()
            raise
        with anyio.CancelScope(deadline=self.clock() + ANSWERS_WITHIN):
            return await answer
        raise TimeoutError

    async def _ask_at_once(self, approvers: Sequence[Seat]) -> dict[str, Asked[P]]:
        """Returns the answers by hook name, without those that came after a denial."""
        self.encoded.params()  # raises the caller's mistake, a payload without a JSON form, before any approver is asked
        if len(approvers) == 1:
            return {approvers[0].name: await self.ask(approvers[0], self.end)}
        answers: dict[str, Asked[P]] = {}
        async with anyio.create_task_group() as tasks:

            async def ask_one(seat: Seat) -> None:
                asked = answers[seat.name] = await self.ask(seat, self.end)
                if not isinstance(asked.decision, Approve):
                    tasks.cancel_scope.cancel()

            for seat in approvers:
                tasks.start_soon(ask_one, seat)
        return answers

    async def _ask_guards(self) -> Outcome[P]:
        """Ask guards again if they saw another payload, the system's last, so that they cannot take the others' time."""
        for seat in sorted(self.guards, key=lambda guard: guard.is_system):
            if self.guards[seat] is not self.encoded.payload and seat.wants(self.encoded.payload):
                self.guards[seat] = self.encoded.payload
                asked = await self.ask(seat, NEVER if seat.waits_for_person else self.end, True)
                self.trail.append(asked.entry)
                if seat.waits_for_person:
                    self.end += asked.entry.duration
                if not isinstance(asked.decision, _PASSES):
                    if self.about_pauses and isinstance(asked.decision, Pause):
                        return await self._after_pause(seat, asked, ())
                    return self.outcome(seat.name, asked)
        return self.outcome() if self.encoded.intact else self.outcome(refusal=CHANGED)


def _name(part: Part) -> str:
    return part.name or type(part).__name__
