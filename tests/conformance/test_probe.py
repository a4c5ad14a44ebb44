"""The host of this package, held to the protocol by the probe."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import preloaded
import pytest

from picohook import LLMRequest, Meta, Timeouts, ToolCall
from picohook.conformance import report as reports
from picohook.conformance.manifest import load
from picohook.model.spec import HookSpec
from picohook.model.stages import STAGES
from picohook.testing import RecordingHost

from . import mutant_host
from .tour import CALLS, EVENTS

REAL = (sys.executable, "-m", "picohook", "probe")
PROBE = (preloaded.path_of("picohook"), "probe")
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
async def test_the_host_of_this_package_passes_every_requirement(report_file, dialect):
    probe = HookSpec(
        name="probe", command=(*PROBE, str(report_file)), stages=tuple(STAGES), observe=("*",), events=dialect, grace=60
    )
    async with RecordingHost([probe]) as host:
        await show_around(host)
    report = reports.read(json.loads(report_file.read_bytes()), load("host"))
    assert {one.requirement.id for one in report.results if one.status != "pass"} == MISBEHAVING.keys()
    assert report.complete
    assert len(report.results) == len(load("host").requirements)


@pytest.mark.anyio
async def test_the_report_can_be_named_in_the_environment(report_file):
    env = {"PICOHOOK_PROBE_REPORT": str(report_file)}
    async with RecordingHost(
        [HookSpec(name="probe", command=REAL, stages=("before_tool",), env=env, grace=60)]
    ) as host:
        begun = json.loads(report_file.read_bytes())
        await host.before_tool(ToolCall(tool="probe_plain"))
    ended = json.loads(report_file.read_bytes())
    assert (begun["complete"], ended["complete"]) == (False, True)
    assert ended["subject"] == 'the host of "probe"'
    skipped = {one["id"]: one["said"] for one in ended["requirements"] if one["status"] == "skip"}
    assert skipped["HOST-EVENT-2"] == "the host gave no occasion to check it"
    untried = {one["id"]: one["said"] for one in ended["requirements"] if one["status"] == "untried"}
    assert untried["HOST-ASK-1"] == "the host made no call of probe_ask"
    assert not ended["ok"]


@pytest.mark.anyio
async def test_the_host_of_this_package_ends_a_hook_that_never_answers_its_greeting(report_file):
    mute = HookSpec(name="probe_mute", command=(*PROBE, "--hold", "60", str(report_file)), stages=("before_tool",))
    async with RecordingHost([mute], timeouts=Timeouts(hello=2.0)) as host:
        assert host.status().hooks[0].state != "ready"
    assert seen(report_file, "HOST-HELLO-4").status == "pass"


@pytest.mark.anyio
async def test_the_host_of_this_package_sends_whole_lines_to_a_hook_that_stops_reading(report_file):
    command = (*PROBE, "--hold", "0.2", str(report_file))
    deaf = HookSpec(name="probe_deaf", command=command, stages=("before_tool",), observe=("*",), grace=60)
    async with RecordingHost([deaf], timeouts=Timeouts(interceptor=0.1)) as host:
        for _ in range(2):  # at the third it would be ended
            await host.before_tool(ToolCall(tool="x", arguments={"text": "x" * 1_000_000}))
            host.emit("turn_start", {"UserMessage": "x" * 1_000_000})
    assert seen(report_file, "HOST-LINE-4").status == "pass"


def seen(path, requirement):
    report = reports.read(json.loads(path.read_bytes()), load("host"))
    return next(one for one in report.results if one.requirement.id == requirement)


def test_reports_of_several_probes_are_merged():
    manifest = load("host")
    one, two, three = manifest.requirements[:3]
    first = [reports.Result(one, "skip"), reports.Result(two, "pass"), reports.Result(three, "pass")]
    other = [reports.Result(one, "pass"), reports.Result(two, "fail"), reports.Result(three, "skip")]
    merged = reports.merged([reports.Report(manifest, "a", first), reports.Report(manifest, "b", other)])
    assert [result.status for result in merged.results] == ["pass", "fail", "pass"]


IDS = load("host").ids
AT_THE_END = {"HOST-LINE-2", "HOST-END-1"}
"""What a probe cannot know if its host kills it."""
MISBEHAVING = {"HOST-HELLO-4": "run_mute", "HOST-LINE-4": "run_deaf"}


def told_of(host, path, misbehaving):
    """What the probe says of a host: what does not pass, and why."""
    found = []
    for number, way in enumerate(("run", *misbehaving)):
        file = path.with_name(f"{number}.json")
        assert getattr(host([*PROBE, "--hold", "0.1", str(file)]), way)() == 0
        found.append(reports.read(json.loads(file.read_bytes()), load("host")))
    report = reports.merged(found)
    assert report.complete
    assert report.ok is not any(one.broken for one in report.results)
    return {one.requirement.id: (one.status, one.said) for one in report.results if one.status != "pass"}


def test_a_good_host_passes_every_requirement(report_file):
    assert told_of(mutant_host.Host, report_file, MISBEHAVING.values()) == {}


def test_each_requirement_has_its_mutant_and_each_mutant_its_requirement():
    assert {name.replace("_", "-") for name in vars(mutant_host) if name.startswith("HOST_")} == set(IDS)


@pytest.mark.parametrize("requirement", IDS)
def test_a_mutant_breaks_its_requirement_and_no_other(report_file, requirement):
    ways = [MISBEHAVING[requirement]] if requirement in MISBEHAVING else []
    found = told_of(getattr(mutant_host, requirement.replace("-", "_")), report_file, ways)
    assert {one for one, (status, _) in found.items() if status == "fail"} == {requirement}, found
    assert found[requirement][1]


def test_a_signal_after_the_end_of_the_input_is_no_fault(report_file):
    """On a busy machine the signal may come before the probe has read the end."""

    class Late(mutant_host.Host):
        def leave(self):
            self.process.send_signal(signal.SIGSTOP)
            super().leave()
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGCONT)

    Late([*REAL, str(report_file)]).run()
    assert seen(report_file, "HOST-END-1").status == "pass"


def killed_by(host, path, command=PROBE):
    """What the report says of a host that kills the probe in place of closing its input."""

    class Killer(host):
        def leave(self):
            self.ask("before_compact", mutant_host.ONCE["before_compact"])  # so that all lines before it were read
            self.process.kill()

    Killer([*command, str(path)]).run()
    return reports.read(json.loads(path.read_bytes()), load("host"))


def test_a_host_that_kills_the_probe_is_not_called_conforming(report_file):
    report = killed_by(mutant_host.Host, report_file, REAL)  # a program that is forked would end by itself
    found = {one.requirement.id: (one.status, one.said) for one in report.results if one.status != "pass"}
    assert (report.complete, report.ok) == (False, False)
    assert found.keys() == {*AT_THE_END, *MISBEHAVING}
    assert found["HOST-LINE-2"] == ("untried", "the host ended the probe before it was seen")
    shown = subprocess.run([*PROBE, "--show", str(report_file)], capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    assert shown.stdout.splitlines()[-5:] == [
        "not tried, since the host ended the probe before it was seen: HOST-LINE-2, HOST-END-1",
        "not tried, since there was no hook named probe_deaf: HOST-LINE-4",
        "not tried, since there was no hook named probe_mute: HOST-HELLO-4",
        "This report is not complete: the host did not close the probe's input, or has not yet.",
        "not conforming",
    ]


def test_a_host_that_kills_the_probe_before_hello_has_no_report_of_an_earlier_host(report_file):
    report_file.write_text('{"ok": true}')
    with subprocess.Popen([*REAL, str(report_file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"hook.of_tomorrow","params":{}}\n')
        process.stdin.flush()
        assert process.stdout.readline()
        process.kill()
    report = reports.read(json.loads(report_file.read_bytes()), load("host"))
    assert (report.complete, report.ok) == (False, False)


@pytest.mark.parametrize("requirement", [one for one in IDS if one not in {*AT_THE_END, *MISBEHAVING}])
def test_a_fault_is_found_though_the_host_kills_the_probe(report_file, requirement):
    report = killed_by(getattr(mutant_host, requirement.replace("-", "_")), report_file)
    found = {one.requirement.id: one.status for one in report.results}
    assert found[requirement] == "fail"
    assert not report.ok
