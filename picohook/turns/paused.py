"""A turn that a hook paused, as something to keep: it goes to JSON, and on in another process.

Whoever can write the JSON can claim what was decided. So what was approved counts on resuming only if the text carries the
embedder's own MAC; without it, guards and approvers are asked again about the final calls.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from ..errors import PicohookError
from ..model.payloads import Meta, ToolCall, ToolResult  # noqa: TC001 - pydantic reads them at run time

if TYPE_CHECKING:
    from typing import Self

VERSION: Final = 1


class Step(BaseModel):
    """One call of a batch, as far as it has come."""

    model_config = ConfigDict(extra="forbid")

    call: ToolCall
    asked: dict[str, str] = Field(default_factory=dict)
    """The hooks that have decided about it, with their fingerprints."""
    seen: str = ""
    """A digest of the call as these hooks left it: when it is another call by now, its guards are asked again."""
    result: ToolResult | None = None
    """Set when the call is settled."""
    digest: str = ""
    """Of the call that was approved; empty while it was not."""
    approvers: dict[str, str] = Field(default_factory=dict)
    """Who approved it, with their fingerprints."""
    delivered: bool = False
    """Whether what its result has for the user was brought there."""


class PausedTurn(BaseModel):
    """Everything that is needed to go on."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = VERSION
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
    """What the user said meanwhile, and the model was not told yet."""
    inbox: list[tuple[str, str]] = Field(default_factory=list)
    """Sub-turns and what they came to, which the model was not told yet."""
    interrupted: bool = False
    rounds: int = Field(default=0, ge=0)
    response: dict[str, Any] = Field(default_factory=dict)
    model: str = ""
    system_prompt: str | None = None
    asked: dict[str, str] = Field(default_factory=dict)
    """At before_finish: the hooks that have decided, with their fingerprints."""
    executed: list[dict[str, Any]] = Field(default_factory=list)
    """What came of the calls that are done, for turn_end."""
    batch: list[Step] = Field(default_factory=list)
    at: int = Field(default=0, ge=0)
    """Which call of the batch paused."""

    _authentic: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _at_a_call(self) -> Self:
        if self.stage == "before_tool" and not self.at < len(self.batch):
            raise ValueError(f"there is no call {self.at} in a batch of {len(self.batch)}")
        return self

    @property
    def authentic(self) -> bool:
        """Whether nobody but the embedder can have written this: what a turn handed out, or a text with its MAC."""
        return self._authentic

    @classmethod
    def of(cls, **state: Any) -> Self:
        """What a turn hands out."""
        paused = cls(**state)
        paused._authentic = True
        return paused

    def to_json(self, key: bytes | None = None) -> str:
        """As a text; with a key, one that keeps what was approved. Raises `PicohookError` for what has no JSON form."""
        _require_key(key)
        try:
            turn = self.model_dump(mode="json")
            return json.dumps({"turn": turn} if key is None else {"turn": turn, "mac": _mac(turn, key)})
        except ValueError as error:
            raise PicohookError(f"this turn cannot be written as JSON: {error}") from None

    @classmethod
    def from_json(cls, text: str | bytes, key: bytes | None = None) -> Self:
        """From a text. Raises `PicohookError` when it is none of ours, or a key is given and the MAC does not fit."""
        _require_key(key)
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PicohookError(f"this is not a paused turn: {error}") from None
        turn = given.get("turn") if isinstance(given, dict) else None
        if not isinstance(turn, dict):
            raise PicohookError("this is not a paused turn: it is no object with a `turn`")
        if key is not None and not _fits(given.get("mac"), _mac(turn, key)):
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
        raise PicohookError("an empty key seals nothing: anybody can have it")


def _fits(given: object, mac: str) -> bool:
    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), mac.encode())


def _mac(turn: Any, key: bytes) -> str:
    canonical = json.dumps(turn, sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(key, canonical, hashlib.sha256).hexdigest()
