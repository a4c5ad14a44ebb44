"""What `picohook fleet` makes of the messages of hosts and workers."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from picohook import HostStatus
from picohook.cli.commands.fleet import _tables
from picohook.cli.fleet import FORGOTTEN, RUNS, Fleet, alarms
from picohook.transport.nats.heartbeat import summary

ALIVE = {"every": 300, "verdict": "denied", "last_denial_age": 10.0, "proofs": {}, "alarms": ()}
PASSED = {"tool": "bash", "gate": "", "verdict": "not_denied", "hook": "", "why": "before_tool: continue"}


def host(name="h1", **told):
    given = {"host": name, "id": name, "state": "running", "every_s": 5.0, "config": "c" * 64, "version": "1"}
    return {**given, **summary(HostStatus((), "none", 0).wire()), **told}


def worker(name="w1", subject="picohook.v1.rpc.acme.policy.*", **endpoint):
    endpoint = {"subject": subject, "num_requests": 4, "num_errors": 1, "processing_time": 8_000_000, **endpoint}
    return {"name": "policy", "id": name, "version": "1", "metadata": {"config": "d" * 64}, "endpoints": [endpoint]}


@pytest.fixture
def fleet():
    return Fleet("acme", asked_every=1.0)


def hear(fleet, report, now):
    fleet.heard(
        report["host"] if isinstance(report, dict) and "host" in report else "h1", json.dumps(report).encode(), now
    )


def answer(fleet, report, now):
    fleet.answered(json.dumps(report).encode(), now)


def shown(fleet, now):
    figures = fleet.figures(now)
    return {one.get("host") or one["id"]: one["state"] for one in (*figures["hosts"], *figures["workers"])}


def test_a_member_that_stops_reporting_is_gone_and_is_forgotten_later(fleet):
    hear(fleet, host(), 0)
    answer(fleet, worker(), 0)
    assert shown(fleet, 3) == {"h1": "ok", "w1": "ok"}
    assert shown(fleet, 4) == {"h1": "ok", "w1": "gone"}
    assert shown(fleet, 16) == {"h1": "gone", "w1": "gone"}
    assert len([*alarms(fleet.figures(16))]) == 2
    hear(fleet, host(), 17)
    assert shown(fleet, 18) == {"h1": "ok", "w1": "gone"}
    assert shown(fleet, FORGOTTEN + 1) == {"h1": "gone"}
    assert shown(fleet, FORGOTTEN + 18) == {}


def test_a_host_that_ended_is_not_gone(fleet):
    hear(fleet, host(state="ended"), 0)
    assert shown(fleet, 100) == {"h1": "ended"}
    assert not [*alarms(fleet.figures(100))]


def test_two_processes_of_one_machine_are_two_hosts(fleet):
    hear(fleet, host(id="a"), 0)
    hear(fleet, host(id="b"), 0)
    assert [one["id"] for one in fleet.figures(1)["hosts"]] == ["a", "b"]


def test_a_host_has_the_name_of_its_subject_whatever_it_says(fleet):
    fleet.heard("h1", json.dumps(host("h2")).encode(), 0)
    assert shown(fleet, 0) == {"h1": "ok"}


def test_of_one_host_no_more_than_a_hundred_runs_are_shown(fleet):
    hear(fleet, host("other"), 0)
    for run in range(RUNS + 10):
        hear(fleet, host(id=str(run)), run / 100)
    ids = {one["id"] for one in fleet.figures(2)["hosts"]}
    assert ids == {"other", *map(str, range(10, RUNS + 10))}


def test_a_host_whose_gates_do_not_deny_is_an_alarm_and_says_why(fleet):
    hear(fleet, host(proof_of_life={**ALIVE, "verdict": "not_denied", "alarms": [PASSED]}), 0)
    assert shown(fleet, 1) == {"h1": "alarm"}
    assert [*alarms(fleet.figures(1))] == ["h1: bash was not denied (before_tool: continue)"]


def test_the_age_of_the_last_denial_grows_while_a_host_is_silent(fleet):
    hear(fleet, host(proof_of_life=ALIVE), 0)
    assert fleet.figures(4)["hosts"][0]["proof_of_life"]["last_denial_age"] == 14


def test_rates_and_times_of_workers_are_those_between_two_answers(fleet):
    answer(fleet, worker(), 0)
    more = {"in_flight": 3, "failures": {"busy": 2}}
    answer(fleet, worker(num_requests=24, processing_time=48_000_000, data=more), 2)
    (one,) = fleet.figures(2)["workers"]
    assert (one["calls_per_second"], one["mean_ms"], one["in_flight"], one["failures"]) == (10, 2, 3, {"busy": 2})


NO_HOSTS = [
    None,
    [],
    {},
    host(id=1),
    host(id="x" * 2000),
    host(calls="many"),
    host(calls=-1),
    host(up_s=float("nan")),
    host(failures=[]),
    host(failures={"absent": "x"}),
    host(hooks={"p": []}),
    host(every_s="x"),
    host(every_s=0),
    host(version=[]),
    host(proof_of_life=3),
    host(proof_of_life={"verdict": []}),
    host(proof_of_life={"last_denial_age": "x"}),
    host(proof_of_life={"verdict": "failed", "alarms": [{"tool": "bash"}]}),
    host(proof_of_life={"verdict": "failed", "alarms": [{**PASSED, "verdict": "x"}]}),
]


@pytest.mark.parametrize("told", NO_HOSTS)
def test_what_is_no_report_of_a_host_is_ignored(fleet, told):
    hear(fleet, told, 0)
    assert shown(fleet, 0) == {}


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        {"endpoints": 3},
        {"endpoints": [3]},
        worker(subject="picohook.v1.rpc.b.p.x"),
        worker(num_requests="x"),
        worker(processing_time=None),
        worker(data={"failures": {"busy": []}}),
        worker(data={"in_flight": "x"}),
        {**worker(), "metadata": {"hook": 3}},
    ],
)
def test_what_is_no_answer_of_a_worker_of_the_tenant_is_ignored(fleet, told):
    answer(fleet, told, 0)
    assert shown(fleet, 0) == {}


def test_a_host_reports_calls_and_failures_of_all_its_hooks():
    stages = {
        "before_tool": {"executions": 3, "failures": {"timeout": 1}},
        "after_tool": {"executions": 4, "failures": {}},
    }
    hooks = [{"name": "a", "state": "ready", "stages": stages}, {"name": "b", "state": "failed", "stages": stages}]
    told = summary({"hooks": hooks, "proof_of_life": None})
    assert (told["calls"], told["failures"], told["hooks"]) == (14, {"timeout": 2}, {"a": "ready", "b": "failed"})


def test_in_a_narrow_terminal_those_in_trouble_come_first_and_states_and_denials_stay_readable(fleet):
    for number in range(9):
        hear(fleet, host(f"agent-{number}", proof_of_life=ALIVE, failures={"absent": 3}, hooks={"p": "forbidden"}), 0)
    hear(fleet, host("broken", proof_of_life={**ALIVE, "verdict": "failed", "alarms": [PASSED]}), 0)
    answer(fleet, worker(), 0)
    console = Console(file=io.StringIO(), width=60)
    hosts, workers = _tables(fleet.figures(1), 60, 4)
    console.print(hosts)
    console.print(workers)
    columns, first, *_, more, _, of_worker = console.file.getvalue().splitlines()
    assert "last denial" in columns
    assert [*first.split()[:2], first.split("s ago")[0].split()[-1]] == ["broken", "alarm", "11"]
    assert more == "and 7 more"
    assert of_worker.split()[:2] == ["policy", "ok"]
