"""A proof of life: hooks are asked about a harmful call that they must deny, and whatever else they do is an alarm."""

from __future__ import annotations

import json
import logging

import anyio
import anyio.lowlevel
import pytest

from picohook import (
    AuditLog,
    Canary,
    Deny,
    FunctionHook,
    Host,
    Listener,
    Pause,
    Proof,
    ProofOfLife,
    Respond,
)
from picohook.ext.prometheus.metrics import prometheus
from picohook.model.stages import STAGES
from picohook.projects.layers import discover
from picohook.testing import FakeHook, RecordingHost

pytestmark = pytest.mark.anyio

AT_ONCE = ProofOfLife(every=0.001)
MAIL = Canary(tool="send_mail", arguments={"to": "everyone"})
FAILS = RuntimeError("out of order")


def gate(answer, stage="before_tool", name="gate", **settings):
    return FakeHook(name, {stage: answer}, **settings)


@pytest.mark.parametrize(
    ("scripts", "verdict"),
    [
        pytest.param([{"before_tool": Deny()}], "denied", id="a hook denies"),
        pytest.param([{"approve_tool": False}], "denied", id="an approver denies"),
        pytest.param([{"before_tool": None, "approve_tool": False}], "denied", id="a hook denies as an approver"),
        pytest.param([{"before_tool": FAILS}, {"before_tool": Deny()}], "denied", id="one fails and another denies"),
        pytest.param([{"before_tool": FAILS, "on_failure": "deny"}], "failed", id="a hook fails closed"),
        pytest.param([{"approve_tool": FAILS}], "failed", id="an approver fails"),
        pytest.param([], "not_denied", id="there are no hooks"),
        pytest.param([{"before_tool": None}], "not_denied", id="a hook continues"),
        pytest.param([{"before_tool": FAILS}], "not_denied", id="a hook fails open"),
        pytest.param([{"before_tool": {"action": "modify", "call": {}}}], "not_denied", id="a hook edits"),
        pytest.param([{"before_tool": Respond({"for_llm": "done"})}], "not_denied", id="a hook answers for the tool"),
        pytest.param([{"before_tool": Pause()}], "not_denied", id="a hook pauses"),
        pytest.param([{"approve_tool": True}], "not_denied", id="an approver approves"),
        pytest.param(
            [{"before_tool": Deny(), "filter": {"tool": "mail"}}], "not_denied", id="the filter leaves it out"
        ),
    ],
)
async def test_only_a_denial_by_a_hooks_own_answer_counts(scripts, verdict):
    hooks = [
        FakeHook(f"hook-{number}", {stage: answer for stage, answer in script.items() if stage in STAGES}, **settings)
        for number, script in enumerate(scripts)
        for settings in [{name: value for name, value in script.items() if name not in STAGES}]
    ]
    async with Host(hooks) as host:
        (proof,) = await host.prove_life()
    assert (proof.verdict, proof.call.tool, proof.gate) == (verdict, "bash", "")
    assert proof.why


async def test_each_hook_with_a_canary_must_deny_it_by_itself():
    first, second = gate(Deny(), name="first", canary=MAIL), gate(None, name="second", canary=MAIL)
    async with Host([first, second]) as host:
        proofs = await host.prove_life()
    assert [(proof.gate, proof.verdict, proof.call.tool) for proof in proofs] == [
        ("first", "denied", "send_mail"),
        ("second", "not_denied", "send_mail"),
    ]
    assert len(first.asked) == len(second.asked) == 1


async def test_a_gate_that_allows_its_canary_at_before_tool_may_deny_it_as_an_approver():
    both = FakeHook("both", {"before_tool": Respond({"for_llm": "ok"}), "approve_tool": False}, canary=MAIL)
    async with Host([both]) as host:
        (proof,) = await host.prove_life()
    assert proof.verdict == "denied"
    assert proof.answers == ("before_tool: respond", "approve_tool: denied")


async def test_all_hooks_together_must_deny_the_canaries_of_the_host():
    mail = gate(lambda call: Deny() if call.tool == "send_mail" else None)
    settings = ProofOfLife(every=3600, canaries=(MAIL, Canary(tool="bash")))
    async with Host([mail], proof_of_life=settings) as host:
        proofs = await host.prove_life()
    assert [(proof.call.tool, proof.verdict) for proof in proofs] == [("send_mail", "denied"), ("bash", "not_denied")]


async def test_a_person_is_not_asked():
    person = gate(False, "approve_tool")
    person.waits_for_person = True
    async with Host([person]) as host:
        (proof,) = await host.prove_life()
    assert (proof.verdict, person.asked) == ("not_denied", [])


async def test_a_hook_can_see_that_no_agent_asks():
    hook = gate(Deny())
    async with Host([hook]) as host:
        await host.prove_life()
    (call,) = hook.asked_at("before_tool")
    assert (call.meta.source, call.meta.session_key, call.meta.turn_id) == ("picohook.proof_of_life", "", "")


async def test_proofs_are_counted_apart_from_the_answers_to_agents():
    hook = gate([Deny(), FAILS, None])
    async with RecordingHost([hook]) as host:
        await host.prove_life()
        await host.prove_life()
        (status,) = host.status().hooks
        assert (status.stages, status.failures, status.last_error, host.outcomes) == ({}, 0, None, [])
        await host.before_tool({"tool": "bash"})
        assert host.status().hooks[0].stages["before_tool"]["executions"] == 1
        assert host.status().proof_of_life.proofs == {"denied": 1, "failed": 0, "not_denied": 1}


async def test_an_alarm_is_in_the_log_the_events_the_status_and_the_audit_log_and_its_end_in_the_log(caplog, tmp_path):
    caplog.set_level(logging.INFO, "picohook")
    hook = gate([None, Deny("no")], canary=MAIL)
    changes = []
    async with RecordingHost([hook], listeners=[AuditLog(tmp_path / "audit.jsonl")]) as host:
        host.on_change.add(changes.append)
        await host.prove_life()
        alarmed = host.status().proof_of_life
        await host.prove_life()
        proven = host.status().proof_of_life
    assert [
        (record.levelname, record.getMessage().partition(" hook=")[0], record.hook) for record in caplog.records
    ] == [
        ("ERROR", "a harmful call was not denied", "gate"),
        ("INFO", "a harmful call is denied again", "gate"),
    ]
    assert (alarmed.verdict, alarmed.last_denial, alarmed.last_denial_age) == ("not_denied", 0, None)
    assert alarmed.alarms == ({
        "tool": "send_mail", "gate": "gate", "verdict": "not_denied", "hook": "", "why": "before_tool: continue"
    },)  # fmt: skip
    assert (proven.verdict, proven.alarms) == ("denied", ())
    assert proven.last_denial > 0
    assert proven.last_denial_age >= 0
    assert [(event.kind, event.payload["Stage"]) for event in host.events] == [("error", "proof_of_life")]
    assert [change.verdict for change in changes] == ["not_denied", "denied"]
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    records = [record for record in map(json.loads, lines) if record["method"] == "host.proof_of_life"]
    assert [(record["gate"], record["verdict"], record["hooks"][0]["action"]) for record in records] == [
        ("gate", "not_denied", "continue"),
        ("gate", "denied", "deny_tool"),
    ]
    assert "everyone" not in str(lines)


async def test_prometheus_gets_verdicts_and_the_time_of_the_last_denial():
    async with Host([gate([None, Deny()])]) as host:
        assert "proof" not in prometheus(host.status().wire())
        await host.prove_life()
        never = prometheus(host.status().wire())
        await host.prove_life()
        denied = prometheus(host.status().wire())
        time = host.status().proof_of_life.last_denial
    assert 'picohook_proofs_of_life_total{verdict="not_denied"} 1' in never
    assert "picohook_last_denial_timestamp_seconds 0.0\n" in never
    assert float(denied.split("picohook_last_denial_timestamp_seconds ")[-1]) == time


async def test_a_host_gives_proofs_again_and_again_from_when_its_hooks_are_ready_until_it_ends():
    asked = []
    third = anyio.Event()

    def deny(call):
        asked.append(call)
        if len(asked) == 3:
            third.set()
        return Deny()

    async with Host([gate(deny)], proof_of_life=AT_ONCE) as host:
        await third.wait()
    assert host.status().proof_of_life.verdict == "denied"
    told = len(asked)
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    assert len(asked) == told


async def test_a_slow_gate_is_asked_once_at_a_time_and_the_end_of_the_host_does_not_wait_for_it():
    hangs = anyio.Event()
    asked = []

    async def hang(call):
        asked.append(call)
        hangs.set()
        await anyio.sleep_forever()

    async with Host([FunctionHook("gate", {"before_tool": hang}, timeout=3600)], proof_of_life=AT_ONCE) as host:
        await hangs.wait()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert host.status().proof_of_life.verdict == ""
    assert len(asked) == 1


async def test_a_listener_that_fails_stops_no_proof():
    class Broken(Listener):
        def proved(self, proof: Proof) -> None:
            raise RuntimeError

    async with Host([gate(Deny())], listeners=[Broken()]) as host:
        (proof,) = await host.prove_life()
    assert proof.verdict == "denied"


CONFIG = """
[hooks.gate]
python = "gates:deny"
stages = ["before_tool"]
canary = {{ tool = "{tool}" }}
"""


async def test_a_reload_changes_how_often_and_what_is_asked_without_a_new_start_of_the_hook(tmp_path):
    (tmp_path / "gates.py").write_text("def deny(call):\n    return False\n")
    config = tmp_path / "picohook.toml"
    config.write_text(CONFIG.format(tool="bash"))
    async with Host.from_config(config) as host:
        assert host.status().proof_of_life is None
        config.write_text('[proof_of_life]\nevery = 60\ncanaries = [{ tool = "rm" }]\n' + CONFIG.format(tool="mail"))
        assert (await host.reload()).kept == ("gate",)
        assert host.status().proof_of_life.every == 60
        assert [proof.call.tool for proof in await host.prove_life()] == ["mail", "rm"]
        config.write_text(CONFIG.format(tool="mail"))
        await host.reload()
        assert host.status().proof_of_life.every is None


def test_proofs_of_several_files_are_all_given_as_often_as_one_of_them_asks(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    (tmp_path / "own/picohook").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    (tmp_path / "own/picohook/picohook.toml").write_text(
        '[hooks]\n[proof_of_life]\nevery = 60\ncanaries = [{ tool = "a" }]\n'
    )
    (tmp_path / "project/picohook.toml").write_text('[hooks]\n[proof_of_life]\ncanaries = [{ tool = "b" }]\n')
    found = ProofOfLife.joined(discover(tmp_path / "project").tables["proof_of_life"])
    assert (found.every, [canary.tool for canary in found.canaries]) == (60, ["a", "b"])
