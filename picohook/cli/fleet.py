"""The hosts and workers of a tenant, from their reports over NATS. This module reads no clock and does no I/O."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from ..transport.nats.heartbeat import ENDED, RUNNING
from ..transport.nats.subjects import rpc
from . import stats

MISSED = 3
"""How many reports in a row a host or a worker may miss before it counts as gone."""
FORGOTTEN = 600.0
"""Seconds after which a member that is gone is no longer shown."""
RUNS = 100
"""The most runs of one host that are shown. The oldest ones are forgotten."""
OK, ALARM, GONE = "ok", "alarm", "gone"
_SHOWN = ("host", "id", "version", "config", "bundle", "up_s", "calls", "calls_per_second", "failures")

K = TypeVar("K")
Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(max_length=1000)]


class _Reported(BaseModel):
    """A part of a report. A report that does not fit is ignored: it must not end the view of all others."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Alarm(_Reported):
    tool: Text
    verdict: Literal["failed", "not_denied"]
    why: Text


class _Proofs(_Reported):
    verdict: Text | None = None
    last_denial_age: FiniteFloat | None = None
    alarms: list[_Alarm] = []


class _HostReport(_Reported):
    model_config = ConfigDict(extra="ignore")

    id: Text
    state: Text = RUNNING
    every_s: Annotated[FiniteFloat, Field(gt=0, le=3600)]
    version: Text | None = None
    config: Text | None = None
    bundle: Any = None
    up_s: FiniteFloat | None = None
    calls: Count
    calls_per_second: FiniteFloat | None = None
    failures: dict[Text, Count]
    hooks: dict[Text, Text]
    proof_of_life: _Proofs | None


class _Load(_Reported):
    failures: dict[Text, Count] = {}
    in_flight: Count = 0


class _Endpoint(_Reported):
    subject: Text
    num_requests: Count = 0
    num_errors: Count = 0
    processing_time: Count = 0
    """In nanoseconds."""
    data: _Load | None = None


class _WorkerReport(_Reported):
    id: Text
    name: Text
    version: Text
    metadata: dict[Text, Text] = {}
    endpoints: list[_Endpoint]


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
        self._hosts: dict[tuple[str, str], _Member] = {}
        self._workers: dict[str, _Member] = {}

    def heard(self, host: str, report: bytes, now: float) -> None:
        """Take a report that this host has sent. Anything else is ignored."""
        try:
            checked = _HostReport.model_validate_json(report).model_dump() | {"host": host}
        except ValidationError:
            return
        key = host, checked["id"]
        if key not in self._hosts:
            runs = [run for run in self._hosts if run[0] == host]
            for oldest in runs[: max(len(runs) - RUNS + 1, 0)]:
                del self._hosts[oldest]
        _remember(self._hosts, key, checked, now)

    def answered(self, report: bytes, now: float) -> None:
        """Take the answer of a micro service to `$SRV.STATS`. Other services are ignored."""
        try:
            worker = _WorkerReport.model_validate_json(report)
        except ValidationError:
            return
        endpoints = [one for one in worker.endpoints if one.subject.startswith(self._subject)]
        if endpoints:
            _remember(self._workers, worker.id, _worker(worker, endpoints), now)

    def figures(self, now: float) -> dict[str, Any]:
        """Return the plain JSON form."""
        self._hosts = _remembered(self._hosts, now)
        self._workers = _remembered(self._workers, now)
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


def _remember(members: dict[K, _Member], key: K, report: Mapping[str, Any], now: float) -> None:
    if key in members:
        members[key].update(report, now)
    else:
        members[key] = _Member(report, now)


def _remembered(members: dict[K, _Member], now: float) -> dict[K, _Member]:
    return {key: one for key, one in members.items() if now - one.at <= FORGOTTEN}


def _host(member: _Member, now: float) -> dict[str, Any]:
    report, silent = member.report, now - member.at
    proof = report["proof_of_life"]
    if report["state"] == ENDED:
        state = ENDED
    elif silent > MISSED * report["every_s"]:
        state = GONE
    else:
        state = ALARM if proof and proof["verdict"] in {"failed", "not_denied"} else OK
    if proof is not None:
        age = proof["last_denial_age"]
        proof = {**proof, "last_denial_age": None if age is None else round(age + silent, 1)}
    taken = {name: report[name] for name in _SHOWN}
    not_ready = {name: hook for name, hook in report["hooks"].items() if hook != "ready"}
    return {**taken, "state": state, "not_ready": not_ready, "proof_of_life": proof, "heard_s_ago": round(silent, 1)}


def _worker(report: _WorkerReport, endpoints: list[_Endpoint]) -> dict[str, Any]:
    """The report of a worker, with all its endpoints together."""
    calls = sum(one.num_requests for one in endpoints)
    spent = sum(one.processing_time for one in endpoints)
    loads = [one.data for one in endpoints if one.data is not None]
    failures: Counter[str] = Counter()
    for load in loads:
        failures.update(load.failures)
    return {
        "hook": report.metadata.get("hook", report.name),
        "id": report.id,
        "version": report.metadata.get("picohook", report.version),
        "config": report.metadata.get("config"),
        "calls": calls,
        "mean_ms": round(spent / calls / 1e6, 3) if calls else None,
        "errors": sum(one.num_errors for one in endpoints),
        "failures": dict(failures),
        "in_flight": sum(load.in_flight for load in loads) if loads else None,
    }


def alarms(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each host whose gates do not deny, and for each member that is gone."""
    for host in figures["hosts"]:
        if host["state"] == ALARM:
            for alarm in host["proof_of_life"]["alarms"]:
                yield f"{host['host']}: {stats.alarm(alarm)}"
        elif host["state"] == GONE:
            yield f"{host['host']}: gone, last report {host['heard_s_ago']:.0f} s ago"
    for worker in figures["workers"]:
        if worker["state"] == GONE:
            yield f"worker {worker['id']} of {worker['hook']}: gone, last report {worker['heard_s_ago']:.0f} s ago"
