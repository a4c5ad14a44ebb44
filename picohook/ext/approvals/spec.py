"""The settings of a hook whose calls wait in the queue."""

from __future__ import annotations

import shlex
from typing import Any, Literal

from pydantic import Field, field_validator

from ...extension import Lazy
from ...model.spec import HookSpec, Seconds, StageName
from ...model.stages import APPROVE_TOOL

HOOK: Lazy[Any] = Lazy("picohook.ext.approvals.hook:QueueHook")
TIMEOUT = 600.0
"""The default timeout in seconds: people take longer than programs."""


class QueueSpec(HookSpec):
    """`approver = "queue"`: the call waits in the queue of this user until a person answers."""

    approver: Literal["queue"] = Field(description='"queue": a call waits until a person answers it.')
    notify: tuple[str, ...] = Field(
        default=(),
        description="With approver: a program and its arguments, run when a call waits, with the call on stdin.",
    )
    stages: tuple[StageName, ...] = Field(default=(APPROVE_TOOL.name,), description="The stages at which it is asked.")
    approval_timeout: Seconds | None = Field(default=TIMEOUT, description="Seconds for approve_tool.")

    @field_validator("stages")
    @classmethod
    def _approves(cls, stages: tuple[str, ...]) -> tuple[str, ...]:
        if stages != (APPROVE_TOOL.name,):
            raise ValueError(f'must be ["{APPROVE_TOOL.name}"]: a person is asked for approval and nothing else')
        return stages

    @field_validator("notify", mode="before")
    @classmethod
    def _no_shell_string(cls, value: Any) -> Any:
        return cls._no_shell_strings(value)

    @field_validator("notify")
    @classmethod
    def _no_empty_program(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return cls._no_nul(value)

    @property
    def kind(self) -> str:
        return "approver"

    @property
    def runs(self) -> str:
        return f"{self.approver}, and {shlex.join(self.notify)}" if self.notify else self.approver

    @property
    def examined(self) -> HookSpec:
        return self.notifier or self

    @property
    def notifier(self) -> HookSpec | None:
        """The settings of the program that is run when a call waits; None without one."""
        if not self.notify:
            return None
        own = {name: getattr(self, name) for name in ("name", "layer", "source", "depth", "dir", "env", "inherit_env")}
        return HookSpec(command=self.notify, trust=self.trust, limits=self.limits, sandbox=self.sandbox, **own)

    def make(self) -> Any:
        return HOOK.load()(self)
