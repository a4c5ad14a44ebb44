"""A turn that a hook paused, as something to keep: it goes to JSON, and on in another process.

Whoever can write the JSON can claim what was decided. So what was approved counts on resuming only if the text carries the
embedder's own MAC; without it, approvers are asked again about the final calls.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from .errors import PicohookError
from .models import Meta, ToolCall, ToolResult  # noqa: TC001 - pydantic reads them at run time

if TYPE_CHECKING:
    from typing import Self


class Step(BaseModel):
    """One call of a batch, as far as it has come."""

    model_config = ConfigDict(extra="forbid")

    call: ToolCall
    asked: dict[str, str] = Field(default_factory=dict)
    """The hooks that have decided about it, with their fingerprints."""
    result: ToolResult | None = None
    """Set when the call is settled."""
    digest: str = ""
    """Of the call that was approved; empty while it was not."""


class PausedTurn(BaseModel):
    """Everything that is needed to go on."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    stage: Literal["before_tool", "before_finish"]
    hook: str
    """The hook that paused."""
    reason: str = ""
    meta: Meta
    user_message: str = ""
    messages: list[dict[str, Any]] = Field(default_factory=list)
    context: list[str] = Field(default_factory=list)
    injected: list[dict[str, Any]] = Field(default_factory=list)
    rounds: int = 0
    response: dict[str, Any] = Field(default_factory=dict)
    batch: list[Step] = Field(default_factory=list)
    at: int = 0
    """Which call of the batch paused."""

    _authentic: bool = PrivateAttr(default=True)

    @property
    def authentic(self) -> bool:
        """Whether nobody but the embedder can have written this: its own object, or a text with its MAC."""
        return self._authentic

    def to_json(self, key: bytes | None = None) -> str:
        """As a text; with a key, one that keeps what was approved."""
        turn = self.model_dump(mode="json")
        return json.dumps({"turn": turn, "mac": _mac(turn, key)} if key else {"turn": turn})

    @classmethod
    def from_json(cls, text: str | bytes, key: bytes | None = None) -> Self:
        """From a text. Raises `PicohookError` when it is none of ours, or a key is given and the MAC does not fit."""
        try:
            given = json.loads(text)
            turn = given["turn"]
            paused = cls.model_validate(turn)
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            raise PicohookError(f"this is not a paused turn: {error}") from None
        mac = given.get("mac")
        if key is not None and not (isinstance(mac, str) and hmac.compare_digest(mac, _mac(turn, key))):
            raise PicohookError(
                "the paused turn was changed, or sealed with another key: resume without a key to ask again"
            )
        paused._authentic = key is not None  # noqa: SLF001 - its own class
        return paused


def _mac(turn: Any, key: bytes) -> str:
    canonical = json.dumps(turn, sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(key, canonical, hashlib.sha256).hexdigest()
