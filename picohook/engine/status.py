"""The reports of a host: its status, and the changes of a reload."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..hooks.base import HookStatus
    from ..model.proof import Verdict


@dataclass(frozen=True, slots=True)
class ProofStatus:
    """The results of a host's proofs of life."""

    every: float | None
    """Seconds between two proofs; None if they are given only when they are asked for."""
    verdict: Verdict | Literal[""]
    """The worst verdict of the last proof; empty before the first."""
    last_denial: float
    """The time when every harmful call was last denied, in seconds since the epoch; 0 if that never happened."""
    last_denial_age: float | None
    """The seconds since the last denial."""
    proofs: Mapping[str, int]
    """The number of harmful calls that hooks were asked about, by verdict."""
    alarms: tuple[Mapping[str, Any], ...]
    """The calls of the last proof that were not denied, in the JSON form of `Proof`."""


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The state of a host and its hooks."""

    hooks: tuple[HookStatus, ...]
    containment: str
    """The containment of hooks' descendants: "namespace", "sweep" or "group"; "none" if no hook was started."""
    log_failures: int
    containment_lacks: dict[str, str] = field(default_factory=dict)
    """The kinds of containment that were tried and that this machine cannot provide, and why."""
    proof_of_life: ProofStatus | None = None
    """The results of its proofs of life; None without any."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """The status of extensions' parts, by the names of the fields in the JSON form."""

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        shown = asdict(self)
        return {**shown, **shown.pop("parts")}


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The result of a reload: each hook of the new configuration is in one of `added`, `changed`, `kept` and `failed`."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """The hooks that did not start, and why. An old hook stays in place. Without one, the new hook is started again."""

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        names = {kind: list(getattr(self, kind)) for kind in ("added", "removed", "changed", "kept")}
        return {**names, "failed": dict(self.failed)}
