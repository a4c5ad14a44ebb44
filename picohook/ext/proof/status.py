"""The results of a host's proofs of life."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...model.proof import Verdict


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
