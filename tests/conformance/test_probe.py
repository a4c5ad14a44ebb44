"""The host of this package, held to the protocol by the probe."""

from __future__ import annotations

import json
import sys

import pytest

from picohook import LLMRequest, Meta, ToolCall
from picohook.conformance import report as reports
from picohook.conformance.manifest import load
from picohook.spec import HookSpec
from picohook.stages import STAGES
from picohook.testing import RecordingHost

from . import mutant_host
from .tour import CALLS, EVENTS

PROBE = (sys.executable, "-m", "picohook", "probe")
META = Meta(agent_id="a", turn_id="t", session_key="s", iteration=1)
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture
def report_file(tmp_path):
    return tmp_path / "report.json"


async def show_around(host):
    """Everything that a host can be made to do with a hook."""
    for kind, payload in EVENTS.items():
        host.emit(kind, payload, meta=META)
    await host.before_prompt({"meta": META, "prompt": "hi", "messages": MESSAGES})
    await host.run_llm(LLMRequest(meta=META, model="m", messages=MESSAGES), answer)
    for call in CALLS:
        await host.run_tool(ToolCall(meta=META, tool=call["tool"], arguments=call["arguments"]), lambda _: "done")
    await host.before_finish({"meta": META, "messages": MESSAGES})
    for ask in (host.before_compact, host.after_compact):
        await ask({"meta": META, "scope": "auto", "messages": MESSAGES})
    await host.emit_and_wait("session_end", {}, meta=META)


async def answer(_):
    return {"role": "assistant", "content": "hello"}


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", ["legacy", "runtime"])
async def test_the_host_of_this_package_holds_all_of_it(report_file, dialect):
    probe = HookSpec(
        name="probe", command=(*PROBE, str(report_file)), stages=tuple(STAGES), observe=("*",), events=dialect
    )
    async with RecordingHost([probe]) as host:
        await show_around(host)
    report = reports.read(json.loads(report_file.read_bytes()), load("host"))
    assert {one.requirement.id: one.said for one in report.results if one.status != "pass"} == {}
    assert report.complete
    assert len(report.results) == len(load("host").requirements)


@pytest.mark.anyio
async def test_the_report_can_be_named_in_the_environment(report_file):
    env = {"PICOHOOK_PROBE_REPORT": str(report_file)}
    async with RecordingHost([HookSpec(name="probe", command=PROBE, stages=("before_tool",), env=env)]) as host:
        begun = json.loads(report_file.read_bytes())
        await host.before_tool(ToolCall(tool="probe_plain"))
    ended = json.loads(report_file.read_bytes())
    assert (begun["complete"], ended["complete"]) == (False, True)
    assert ended["subject"] == 'the host of "probe"'
    skipped = {one["id"]: one["said"] for one in ended["requirements"] if one["status"] == "skip"}
    assert skipped["HOST-EVENT-2"] == "there was nothing to see of it"
    assert skipped["HOST-ASK-1"] == "the host made no call of probe_ask"


IDS = load("host").ids
SERVE = "import sys; from picohook.conformance.probe import serve; serve(sys.argv[1])"


def told_of(host, path):
    """What the probe says of a host: what does not pass, and why."""
    assert host([sys.executable, "-c", SERVE, str(path)]).run() == 0
    report = reports.read(json.loads(path.read_bytes()), load("host"))
    assert report.complete
    assert report.ok is not any(one.broken for one in report.results)
    return {one.requirement.id: (one.status, one.said) for one in report.results if one.status != "pass"}


def test_a_good_host_holds_all_of_it(report_file):
    assert told_of(mutant_host.Host, report_file) == {}


def test_each_requirement_has_its_mutant_and_each_mutant_its_requirement():
    assert {name.replace("_", "-") for name in vars(mutant_host) if name.startswith("HOST_")} == set(IDS)


@pytest.mark.parametrize("requirement", IDS)
def test_a_mutant_breaks_its_requirement_and_no_other(report_file, requirement):
    found = told_of(getattr(mutant_host, requirement.replace("-", "_")), report_file)
    assert {one for one, (status, _) in found.items() if status == "fail"} == {requirement}, found
    assert found[requirement][1]
