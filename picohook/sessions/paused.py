"""Pause and resume: a paused turn can be kept as JSON, and resumed in another process.

A program that can write the JSON can claim any decision. So an earlier approval counts only if the text has a MAC made with the
embedder's key. Without the MAC, guards and approvers are asked again about the final calls.

A pause can be used once, and not after its life is over. It counts as used before anything of the turn runs.
"""

import hashlib
import hmac
import json
import math
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, Self

import anyio.to_thread
from pydantic import Field, PrivateAttr, ValidationError, model_validator

from ..engine.asker import Asker
from ..engine.used_pauses import UsedPauses
from ..errors import PicohookError
from ..model.deferred import DeferredModel
from ..model.payloads import Meta, ToolCall, ToolResult
from ..wire.text import explain

VERSION: Final = 1


class Step(DeferredModel):
    """One call of a batch, and the decision about it so far."""

    call: ToolCall
    asked: dict[str, str] = Field(default_factory=dict)
    """The hooks that have decided about it, with their fingerprints."""
    seen: str = ""
    """The digest of the call as these hooks left it. If the call has changed since, its guards are asked again."""
    result: ToolResult | None = None
    """Set when the call has its result."""
    digest: str = ""
    """The digest of the approved call; empty before that."""
    approvers: dict[str, str] = Field(default_factory=dict)
    """The approvers, with their fingerprints."""
    delivered: bool = False
    """Whether its result was delivered to the user."""


class PausedTurn(DeferredModel):
    """Everything that is needed to resume the turn."""

    version: Literal[1] = VERSION
    nonce: str = Field(max_length=64)
    """Names the pause, which can be used once."""
    made_at: float
    """The time when it was made, in seconds since 1970."""
    lasts: float = Field(gt=0, allow_inf_nan=False)
    """Seconds in which it can be used."""
    boot: str = ""
    """The boot of the machine that made it, if that is known."""
    uptime: float = 0.0
    """Seconds from that boot to the pause. No clock that is set changes them."""
    stage: Literal["before_tool", "before_finish"]
    hook: str
    """The hook that paused."""
    reason: str = ""
    meta: Meta
    user_message: str = ""
    messages: list[dict[str, Any]] = Field(default_factory=list)
    context: list[str] = Field(default_factory=list)
    injected: list[dict[str, Any]] = Field(default_factory=list)
    steering: list[str] = Field(default_factory=list)
    """Messages of the user that the model has not seen yet."""
    inbox: list[tuple[str, str]] = Field(default_factory=list)
    """Sub-turns and their results that the model has not seen yet."""
    interrupted: bool = False
    rounds: int = Field(default=0, ge=0)
    response: dict[str, Any] = Field(default_factory=dict)
    model: str = ""
    system_prompt: str | None = None
    asked: dict[str, str] = Field(default_factory=dict)
    """At before_finish: the hooks that have decided, with their fingerprints."""
    executed: list[dict[str, Any]] = Field(default_factory=list)
    """The calls that are done, for turn_end."""
    batch: list[Step] = Field(default_factory=list)
    at: int = Field(default=0, ge=0)
    """The index of the call in the batch that paused."""

    _authentic: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _at_a_call(self) -> Self:
        if self.stage == "before_tool" and not self.at < len(self.batch):
            raise ValueError(f"there is no call {self.at} in a batch of {len(self.batch)}")
        return self

    @property
    def authentic(self) -> bool:
        """Whether only the embedder can have written this: it came from a turn, or the text had its MAC."""
        return self._authentic

    @classmethod
    def of(cls, **state: Any) -> Self:
        """Make an authentic paused turn, for a turn that pauses."""
        boot, uptime = _uptime()
        paused = cls(nonce=secrets.token_hex(16), made_at=time.time(), boot=boot, uptime=uptime, **state)
        paused._authentic = True
        return paused

    @property
    def age(self) -> float:
        """Seconds since it was made. Where the clock seems to have been set, the longer time counts, or it is infinite."""
        age = time.time() - self.made_at
        boot, uptime = _uptime()
        if boot and boot == self.boot:
            age = max(age, uptime - self.uptime)
        return age if age >= 0 else math.inf

    def to_json(self, key: bytes | None = None) -> str:
        """The turn as JSON. With a key, approvals count on resuming. Raises `PicohookError` if the turn has no JSON form."""
        _require_key(key)
        try:
            turn = self.model_dump(mode="json")
            return json.dumps({"turn": turn} if key is None else {"turn": turn, "mac": _mac(turn, key)})
        except ValueError as error:
            raise PicohookError(f"this turn cannot be written as JSON: {error}") from None

    @classmethod
    def from_json(cls, text: str | bytes, key: bytes | None = None) -> Self:
        """Read the JSON of `to_json`. Raises `PicohookError` for any other text, and with a key if the MAC does not fit."""
        _require_key(key)
        try:
            state = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PicohookError(f"this is not a paused turn: {error}") from None
        turn = state.get("turn") if isinstance(state, dict) else None
        if not isinstance(turn, dict):
            raise PicohookError("this is not a paused turn: it is not an object with a `turn`")
        mac = str(state.get("mac")).encode("utf-8", "replace")
        if key is not None and not hmac.compare_digest(mac, _mac(turn, key).encode()):
            raise PicohookError(
                "the paused turn was changed, or sealed with another key: resume without a key to ask again"
            )
        if turn.get("version") != VERSION:
            raise PicohookError(
                f"the paused turn is of version {turn.get('version')!r}, and this picohook reads version {VERSION}"
            )
        try:
            paused = cls.model_validate(turn)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise PicohookError(f"this is not a paused turn: {where}: {first['msg']}".replace(": : ", ": ")) from None
        paused._authentic = key is not None  # noqa: SLF001 - its own class
        return paused


def _require_key(key: bytes | None) -> None:
    if key is not None and not key:
        raise PicohookError("an empty key seals nothing: give one that only your program has")


def _mac(turn: Any, key: bytes) -> str:
    canonical = json.dumps(turn, sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(key, canonical, hashlib.sha256).hexdigest()


def _uptime() -> tuple[str, float]:
    """The boot of this machine and the seconds since then; empty if they are not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip(), time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, AttributeError):
        return "", 0.0


# Resuming.


async def use(paused: PausedTurn, store: UsedPauses, pause_lasts: float) -> None:
    """Count a paused turn as used. Raises `PicohookError` if it cannot be used: then a person has to be asked again."""
    lasts = paused.lasts if paused.authentic else min(paused.lasts, pause_lasts)
    if paused.age > lasts:
        raise PicohookError(f"the pause is over: it could be answered for {lasts:g} s. Ask the person again")
    try:
        # In a tuple, because trio takes no coroutine from a thread.
        (first,) = await anyio.to_thread.run_sync(lambda: (store.use(paused.nonce, paused.made_at + lasts),))
        first = first if isinstance(first, bool) else await first
    except PicohookError:
        raise
    except Exception as error:
        raise PicohookError(f"the pause cannot be noted as used, so it is not: {explain(error)}") from error
    if first is not True:
        raise PicohookError("the pause was used before. Ask the person again")


def fingerprints(host: Asker, names: Iterable[str]) -> dict[str, str]:
    """The fingerprints of these hooks' settings."""
    return {name: host.fingerprint(name) for name in names}


def unchanged(host: Asker, asked: Mapping[str, str]) -> set[str]:
    """The hooks whose settings are those of their fingerprints."""
    return {name for name, seen in asked.items() if host.fingerprint(name) == seen}
