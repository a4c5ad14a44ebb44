"""The states of a hook's process, and the allowed steps between them."""

from __future__ import annotations

from enum import StrEnum


class HookState(StrEnum):
    """The state of a hook's process."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    BACKOFF = "restarting"
    FAILED = "failed"
    STOPPING = "stopping"


_ENDS = frozenset({HookState.FAILED, HookState.STOPPED})
"""The states that may follow every state but STOPPED."""
STEPS: dict[HookState, frozenset[HookState]] = {
    # STARTING follows itself because a new hook is STARTING before its first start.
    HookState.STARTING: _ENDS | {HookState.STARTING, HookState.READY, HookState.BACKOFF, HookState.STOPPING},
    HookState.READY: _ENDS | {HookState.BACKOFF, HookState.STOPPING},
    HookState.BACKOFF: _ENDS | {HookState.STARTING},
    HookState.FAILED: frozenset({HookState.BACKOFF, HookState.STOPPED}),
    HookState.STOPPING: _ENDS,
    HookState.STOPPED: frozenset(),
}
"""The states that may follow each state."""


class IllegalStepError(Exception):
    """A step that `STEPS` does not have: a bug in picohook. The supervisor then gives its hook up."""


def step(now: HookState, then: HookState) -> HookState:
    """The state `then`. Raises `IllegalStepError` if it may not follow `now`."""
    if then not in STEPS[now]:
        raise IllegalStepError(f"a hook that is {now.value} cannot become {then.value}")
    return then
