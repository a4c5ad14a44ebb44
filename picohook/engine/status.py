"""The reports of a host: its status, and the changes of a reload."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..hooks.base import HookStatus


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The state of a host and its hooks."""

    hooks: tuple[HookStatus, ...]
    containment: str
    """The containment of hooks' descendants: "namespace", "sweep" or "group"; "none" if no hook was started."""
    log_failures: int
    containment_lacks: dict[str, str] = field(default_factory=dict)
    """The kinds of containment that were tried and that this machine cannot provide, and why."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """The status of extensions' parts, by the names of the fields in the JSON form."""

    @property
    def proof_of_life(self) -> Any:
        """The results of the host's proofs of life, a `ProofStatus`; None without any."""
        return self.parts.get("proof_of_life")

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        shown = asdict(self)
        return {"proof_of_life": None, **shown, **shown.pop("parts")}


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
