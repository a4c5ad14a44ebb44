"""The tree of picohook's errors.

::

    PicohookError
    ├── ConfigError              a wrong configuration; .problems lists every mistake
    │   └── TrustError           a project's configuration that is not trusted
    ├── ProtocolError            a message that the host cannot send
    │   └── EncodeError          a payload that cannot be JSON (NaN, a lone surrogate, a set, a cycle)
    ├── HookError                one hook failed; .hook names it
    │   ├── HookTimeoutError     no answer before the deadline
    │   ├── HookCrashedError     the process ended or was killed; .exit_code, .stderr_tail
    │   ├── HookUnavailableError the hook is elsewhere, and could not be asked there; .cause
    │   ├── HookRefusedError     the hook answered with a JSON-RPC error; .code
    │   ├── HookReplyError       the answer is not a decision that the stage allows
    │   └── HandshakeError       hook.hello was refused, or never answered
    ├── AbortTurnError           a hook ended this turn; .reason, .outcome (this one and the next three: picohook.sessions)
    │   └── HardAbortError       a hook ended the agent loop
    ├── PausedError              a hook handed control back to the embedder; .outcome
    └── RetryLimitError          hooks asked for another round too many times

A stage does not raise the `HookError` of a failing hook: the hook's `on_failure` decides what the failure counts as, and the
outcome's trail shows it. A stage raises errors for the embedder's own mistakes (`EncodeError`). `run_tool` and `run_llm` also
raise an error if a hook decides to stop.
"""

from collections.abc import Iterable
from dataclasses import dataclass


class PicohookError(Exception):
    """The base of every error that picohook raises on purpose."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a configuration: its place, its cause, and the way out."""

    file: str
    where: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}: {self.where}" if self.where else self.file
        return f"{place}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class ConfigError(PicohookError):
    """The configuration cannot be used. None of its hooks was started."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class TrustError(ConfigError):
    """A project's configuration is not trusted, or has changed since it was trusted."""


class ProtocolError(PicohookError):
    """The host cannot send a message: the protocol forbids it, or the hook's input queue is full. Nothing was sent."""


class EncodeError(ProtocolError):
    """The payload has no JSON form. Nothing was sent."""


class HookError(PicohookError):
    """A hook failed. The message is safe to show: text from the hook is cut and escaped."""

    failure_kind = "error"
    """The kind of the failure, for metrics and the trail."""

    def __init__(self, message: str, *, hook: str = "") -> None:
        super().__init__(message)
        self.hook = hook


class HookTimeoutError(HookError):
    """The hook did not answer before its deadline."""

    failure_kind = "timeout"

    def __init__(self, message: str = "", *, hook: str = "") -> None:
        super().__init__(message or "no answer in time", hook=hook)


class HookCrashedError(HookError):
    """The hook's process ended, was killed, or could not be started."""

    failure_kind = "crashed"

    def __init__(
        self,
        message: str,
        *,
        hook: str = "",
        exit_code: int | None = None,
        stderr_tail: str = "",
    ) -> None:
        super().__init__(message, hook=hook)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail


class HookUnavailableError(HookError):
    """The hook is served elsewhere, and could not be asked there."""

    def __init__(self, message: str, *, cause: str, hook: str = "") -> None:
        super().__init__(message, hook=hook)
        self.cause = self.failure_kind = cause
        """absent, unreachable, busy, forbidden, too_large or digest."""


class HookRefusedError(HookError):
    """The hook answered with a JSON-RPC error."""

    failure_kind = "refused"

    def __init__(self, message: str, *, code: int, hook: str = "") -> None:
        super().__init__(message, hook=hook)
        self.code = code


class HookReplyError(HookError):
    """The hook's answer is not a decision that this stage allows."""

    failure_kind = "reply"


class HandshakeError(HookError):
    """The hook refused `hook.hello` or did not answer it."""

    failure_kind = "handshake"
