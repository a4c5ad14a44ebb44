"""The settings of hooks whose calls wait in the queue."""

import shlex
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from ...extension import Lazy
from ...model.spec import HookSpec, OnFailure, Program, Seconds, StageName
from ...model.stages import APPROVE_TOOL, BEFORE_FINISH, BEFORE_TOOL

TIMEOUT = 600.0
"""The default timeout in seconds: people take longer than programs."""


class _PersonSpec(HookSpec):
    """What asks a person in the queue of this user."""

    KEY: ClassVar[str]
    HOOK: ClassVar[Lazy[Any]]
    STAGES: ClassVar[tuple[str, ...]]
    waits_for_person = True

    notify: Program = Field(
        default=(),
        description="With approver or ask: a program and its arguments, run when a call waits, with the call on stdin.",
    )

    @field_validator("stages", check_fields=False)
    @classmethod
    def _usual(cls, stages: tuple[str, ...]) -> tuple[str, ...]:
        if stages != cls.STAGES:
            named = ", ".join(f'"{stage}"' for stage in cls.STAGES)
            raise ValueError(f"must be [{named}]: a person is asked for approval and nothing else")
        return stages

    @property
    def kind(self) -> str:
        return self.KEY

    @property
    def runs(self) -> str:
        return f"queue, and {shlex.join(self.notify)}" if self.notify else "queue"

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
        return self.HOOK.load()(self)


class QueueSpec(_PersonSpec):
    """`approver = "queue"`: the call waits in the queue of this user until a person answers."""

    KEY, HOOK = "approver", Lazy("picohook.ext.approvals.hook:QueueHook")
    STAGES = (APPROVE_TOOL.name,)

    approver: Literal["queue"] = Field(description='"queue": a call waits until a person answers it.')
    stages: tuple[StageName, ...] = Field(default=STAGES, description="The stages at which it is asked.")
    approval_timeout: Seconds | None = Field(default=TIMEOUT, description="Seconds for approve_tool.")


class AskSpec(_PersonSpec):
    """`ask = "queue"`: what other hooks pause waits in the queue of this user. The answer resumes it."""

    KEY, HOOK = "ask", Lazy("picohook.ext.approvals.hook:AskHook")
    STAGES = (BEFORE_TOOL.name, BEFORE_FINISH.name)

    ask: Literal["queue"] = Field(description='"queue": what other hooks pause waits until a person answers it.')
    stages: tuple[StageName, ...] = Field(default=STAGES, description="The stages whose pauses it answers.")
    timeout: Seconds | None = Field(default=TIMEOUT, description="Seconds for one pause.")
    on_failure: OnFailure = Field(default=OnFailure.DENY, description="What its failure does to the call.")

    @model_validator(mode="after")
    def _answers_every_pause(self) -> Self:
        unsure = self.filter is not None or self.fallback is not None or self.on_failure == OnFailure.CONTINUE
        if unsure or getattr(self, "mode", "") == "shadow":
            what = 'a filter, a fallback, on_failure = "continue" or mode = "shadow"'
            raise ValueError(f"has {what}: a pause would end without an answer")
        return self
