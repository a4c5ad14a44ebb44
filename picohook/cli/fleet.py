"""The hosts and workers of a tenant, from their reports over NATS. This module reads no clock and does no I/O."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..transport.nats.heartbeat import ENDED
from ..transport.nats.subjects import rpc
from . import stats

MISSED = 3
"""How many reports in a row a host or a worker may miss before it counts as gone."""
FORGOTTEN = 600.0
"""Seconds after which a member that is gone is no longer shown."""
_OF_HOSTS = {
    "host": str,
    "id": str,
    "every_s": float,
    "calls": int,
    "failures": dict,
    "hooks": dict,
    "proof_of_life": dict | None,
}
_SHOWN = ("host", "id", "version", "config", "bundle", "up_s", "calls", "calls_per_second", "failures")
OK, ALARM, GONE = "ok", "alarm", "gone"


@dataclass
class _Member:
    """One host or worker, with its last two reports."""

    report: Mapping[str, Any]
    at: float
    before: Mapping[str, Any] = field(default_factory=dict)
    before_at: float = 0.0

    def update(self, report: Mapping[str, Any], now: float) -> None:
        self.before, self.before_at = self.report, self.at
        self.report, self.at = report, now

    @property
    def rate(self) -> float | None:
        """Calls a second between the last two reports; None after only one."""
        if not self.before or self.at <= self.before_at:
            return None
        more: int = max(self.report["calls"] - self.before["calls"], 0)
        return round(more / (self.at - self.before_at), 3)


class Fleet:
    """Remembers hosts and workers. A member that stops reporting counts as gone, and is forgotten later.

    `asked_every` is the time in seconds between two questions to the workers.
    """

    def __init__(self, tenant: str, asked_every: float) -> None:
        self._tenant = tenant
        self._asked_every = asked_every
        self._subject = rpc(tenant, "", "").rstrip(".") + "."
        self._hosts: dict[str, _Member] = {}
        self._workers: dict[str, _Member] = {}

    def heard(self, report: Any, now: float) -> None:
        """Take the report of a host. Anything else is ignored."""
        if isinstance(report, dict) and all(isinstance(report.get(name), kind) for name, kind in _OF_HOSTS.items()):
            _remember(self._hosts, f"{report.get('host')} {report['id']}", report, now)

    def answered(self, report: Any, now: float) -> None:
        """Take the answer of a micro service to `$SRV.STATS`. Other services are ignored."""
        if not isinstance(report, dict) or not isinstance(report.get("endpoints"), list):
            return
        all_of_it = [one for one in report["endpoints"] if isinstance(one, dict)]
        endpoints = [one for one in all_of_it if str(one.get("subject")).startswith(self._subject)]
        if endpoints:
            _remember(self._workers, str(report.get("id")), _worker(report, endpoints), now)

    def figures(self, now: float) -> dict[str, Any]:
        """Return the plain JSON form."""
        for members in (self._hosts, self._workers):
            for key in [key for key, one in members.items() if now - one.at > FORGOTTEN]:
                del members[key]
        hosts = sorted((_host(one, now) for one in self._hosts.values()), key=lambda host: (host["host"], host["id"]))
        time_limit = MISSED * self._asked_every
        workers = [
            {
                **one.report,
                "state": OK if now - one.at <= time_limit else GONE,
                "calls_per_second": one.rate if now - one.at <= time_limit else None,
                "heard_s_ago": round(now - one.at, 1),
            }
            for one in self._workers.values()
        ]
        workers.sort(key=lambda worker: (worker["hook"], worker["id"]))
        return {"tenant": self._tenant, "hosts": hosts, "workers": workers}


def _remember(members: dict[str, _Member], key: str, report: Mapping[str, Any], now: float) -> None:
    if key in members:
        members[key].update(report, now)
    else:
        members[key] = _Member(report, now)


def _host(member: _Member, now: float) -> dict[str, Any]:
    report, silent = member.report, now - member.at
    proof = report.get("proof_of_life")
    if report.get("state") == ENDED:
        state = ENDED
    elif silent > MISSED * report.get("every_s", 0):
        state = GONE
    else:
        state = ALARM if proof and proof.get("verdict") in {"failed", "not_denied"} else OK
    if proof is not None:
        age = proof.get("last_denial_age")
        proof = {**proof, "last_denial_age": None if age is None else round(age + silent, 1)}
    taken = {name: report.get(name) for name in _SHOWN}
    not_ready = {name: hook for name, hook in report.get("hooks", {}).items() if hook != "ready"}
    return {**taken, "state": state, "not_ready": not_ready, "proof_of_life": proof, "heard_s_ago": round(silent, 1)}


def _worker(report: Mapping[str, Any], endpoints: list[dict[str, Any]]) -> dict[str, Any]:
    """The report of a worker, with all its endpoints together. Its times are in nanoseconds."""
    calls = sum(one.get("num_requests", 0) for one in endpoints)
    spent = sum(one.get("processing_time", 0) for one in endpoints)
    more = [one["data"] for one in endpoints if isinstance(one.get("data"), dict)]
    failures: Counter[str] = Counter()
    for data in more:
        failures.update(data.get("failures", {}))
    metadata = report.get("metadata") or {}
    return {
        "hook": metadata.get("hook", report.get("name")),
        "id": report.get("id"),
        "version": metadata.get("picohook", report.get("version")),
        "config": metadata.get("config"),
        "calls": calls,
        "mean_ms": round(spent / calls / 1e6, 3) if calls else None,
        "errors": sum(one.get("num_errors", 0) for one in endpoints),
        "failures": dict(failures),
        "in_flight": sum(data.get("in_flight", 0) for data in more) if more else None,
    }


def alarms(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each host whose gates do not deny, and for each member that is gone."""
    for host in figures["hosts"]:
        if host["state"] == ALARM:
            for alarm in host["proof_of_life"].get("alarms", ()):
                yield f"{host['host']}: {stats.alarm(alarm)}"
        elif host["state"] == GONE:
            yield f"{host['host']}: gone, last report {host['heard_s_ago']:.0f} s ago"
    for worker in figures["workers"]:
        if worker["state"] == GONE:
            yield f"worker {worker['id']} of {worker['hook']}: gone, last report {worker['heard_s_ago']:.0f} s ago"
