"""PicoClaw's configuration, as its users have it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from picohook.config import load
from picohook.model.spec import Timeouts, WholeModeSpec

if TYPE_CHECKING:
    from pathlib import Path

    from config_files import Complaints, Write

GATE: dict[str, Any] = {
    "enabled": True,
    "priority": 100,
    "transport": "stdio",
    "command": ["python3", "/tmp/review_gate.py"],
    "observe": ["tool_exec_start", "tool_exec_end", "tool_exec_skipped"],
    "intercept": ["before_tool", "approve_tool"],
    "env": {"PICOCLAW_HOOK_LOG_FILE": "/tmp/gate.log"},
}
STAGES = "before_llm, after_llm, before_tool, approve_tool, after_tool"
NEITHER = f"is never asked and never told: it has neither intercept nor observe (known: {STAGES})"


def processes(**tables: Any) -> str:
    return json.dumps({"hooks": {"enabled": True, "processes": tables}})


def gate(**keys: Any) -> str:
    return processes(gate={**GATE, **keys})


def test_the_documented_example(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("etc/config.json", gate())
    monkeypatch.chdir(tmp_path)
    config = load(path)

    assert (config.dialect, config.enabled, config.warnings) == ("picoclaw", True, ())
    assert config.timeouts == Timeouts()
    assert config.hooks == (
        WholeModeSpec(
            name="gate",
            source=str(path),
            command=("python3", "/tmp/review_gate.py"),
            stages=("before_tool", "approve_tool"),
            observe=("tool_exec_start", "tool_exec_end", "tool_exec_skipped"),
            priority=100,
            env={"PICOCLAW_HOOK_LOG_FILE": "/tmp/gate.log"},
            inherit_env=True,
            dir=str(tmp_path),
        ),
    )


def test_naming_one_stage_of_a_mode_names_the_mode(write: Write) -> None:
    (hook,) = load(write("c.json", gate(intercept=["after_llm", "before_tool"]))).hooks
    assert hook.asked_at == ("before_llm", "after_llm", "before_tool", "after_tool")


def test_the_rest_of_the_file_is_ignored(write: Write) -> None:
    document = {"agents": {"list": [1]}, "gateway": {"port": 18790}, **json.loads(gate())}
    text = json.dumps(document).replace('"gateway": {', '"gateway": {"port": 1, ')
    assert len(load(write("config.json", text)).hooks) == 1


@pytest.mark.parametrize(
    "hooks",
    [{"enabled": True}, {"defaults": {}}, {"builtins": {}}, {"processes": {}}],
    ids=lambda hooks: next(iter(hooks)),
)
def test_any_picoclaw_section_makes_a_file_picoclaws(write: Write, hooks: dict[str, Any]) -> None:
    assert load(write("c.json", json.dumps({"hooks": hooks}))).dialect == "picoclaw"


def test_a_process_is_off_and_has_priority_0_by_default(write: Write) -> None:
    absent = {key: value for key, value in GATE.items() if key not in {"enabled", "priority"}}
    config = load(write("c.json", processes(off=absent, on={**absent, "enabled": True})))
    assert [(hook.name, hook.priority) for hook in config.hooks] == [("on", 0)]


def test_a_process_that_is_off_may_be_incomplete(write: Write) -> None:
    assert load(write("c.json", processes(later={"enabled": False, "command": []}))).hooks == ()


def test_hooks_are_on_unless_switched_off_together(write: Write) -> None:
    assert load(write("c.json", json.dumps({"hooks": {"processes": {"gate": GATE}}}))).enabled
    off = load(write("c.json", json.dumps({"hooks": {"enabled": False, "processes": {"gate": GATE}}})))
    assert (off.enabled, off.hooks) == (False, ())


def test_timeouts_are_milliseconds_and_0_is_the_default(write: Write) -> None:
    defaults = {"observer_timeout_ms": 250, "interceptor_timeout_ms": 0, "approval_timeout_ms": -1}
    config = load(write("c.json", json.dumps({"hooks": {"defaults": defaults}})))
    assert config.timeouts == Timeouts(observer=0.25)


def test_the_chain_may_take_as_long_as_all_its_interceptors_together(write: Write) -> None:
    hooks = {"defaults": {"interceptor_timeout_ms": 20_000}, "processes": {"a": GATE, "b": GATE}}
    assert load(write("c.json", json.dumps({"hooks": hooks}))).timeouts == Timeouts(interceptor=20, chain=40)


def test_relative_paths_start_at_dir_and_dir_at_the_hosts_directory(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("etc/c.json", gate(dir="work", command=["./gate", "./rules"]))
    monkeypatch.chdir(tmp_path)
    (hook,) = load(path).hooks
    assert (hook.dir, hook.command) == (f"{tmp_path}/work", (f"{tmp_path}/work/gate", "./rules"))


def test_X1_a_file_that_was_only_found_does_not_pass_on_the_environment(write: Write) -> None:
    assert load(write("picohook.json", gate()), found=True).hooks[0].inherit_env is False


def test_dotted_kinds_ask_for_runtime_events(write: Write) -> None:
    (hook,) = load(write("c.json", gate(observe=["agent.tool.exec_end"]))).hooks
    assert (hook.events, hook.kinds) == ("runtime", frozenset({"tool_exec_end"}))


def test_null_is_the_same_as_absent(write: Write) -> None:
    (hook,) = load(write("c.json", gate(observe=None, env=None, transport=None, dir=None))).hooks
    assert (hook.observe, hook.env) == ((), {})


def test_an_empty_name_in_intercept_and_an_empty_transport_mean_nothing(write: Write) -> None:
    (hook,) = load(write("c.json", gate(intercept=["", "approve_tool"], transport=""))).hooks
    assert hook.asked_at == ("approve_tool",)


def test_a_builtin_is_warned_about_when_it_is_on(write: Write) -> None:
    builtins = {"audit": {"enabled": True, "priority": 10, "config": {"log": "x"}}, "other": {"enabled": False}}
    config = load(write("c.json", json.dumps({"hooks": {"builtins": builtins}})))
    assert config.warnings == (
        'hooks.builtins: "audit" is built into PicoClaw, not into picohook: mount your own hook for it',
    )


def test_an_event_of_picoclaws_own_runtime_is_warned_about(write: Write) -> None:
    config = load(write("c.json", gate(observe=["turn_end", "gateway.ready", "message_sent"])))
    assert config.warnings == (
        'hooks.processes: "gate" observes "gateway.ready", which comes only where your own program emits it',
        'hooks.processes: "gate" observes "message_sent", which picohook never sends',
    )


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"transport": "tcp"}, '.transport: "tcp" is not a transport (only "stdio" is)'),
        ({"command": []}, ': has no command (such as command = ["python3", "hook.py"])'),
        ({"command": ["", "x"]}, ".command: the program's name is empty"),
        ({"command": "python3 gate.py"}, '.command: must be a list, not "python3 gate.py"'),
        ({"intercept": ["before_tol"]}, '.intercept[0]: "before_tol" is not a stage (did you mean "before_tool"?)'),
        (
            {"intercept": ["before_prompt"]},
            '.intercept[0]: "before_prompt" is not a stage (did you mean "before_llm"?)',
        ),
        ({"observe": ["turn_edn"]}, '.observe[0]: "turn_edn" is not an event kind (did you mean "turn_end"?)'),
        ({"env": {"PORT": 8080}}, '.env.PORT: must be text, not 8080 (in quotes: "8080")'),
        ({"env": {"": "x"}}, '.env."": cannot be in an environment: an empty name, a = in it, or a NUL character'),
        ({"dir": "a\0b"}, ".dir: holds a NUL character"),
        ({"priority": "1"}, '.priority: must be a whole number, not "1"'),
        ({"enabled": "yes"}, '.enabled: must be true or false, not "yes"'),
        ({"intercpt": []}, '.intercpt: unknown key (did you mean "intercept"?)'),
        (
            {"observe": [], "intercept": [""]},
            f": {NEITHER}",
        ),
    ],
)
def test_one_mistake_is_one_message(complaints: Complaints, keys: dict[str, Any], complaint: str) -> None:
    assert complaints("c.json", gate(**keys)) == [f"hooks.processes.gate{complaint}"]


def test_a_native_hook_among_its_sections_is_pointed_out(complaints: Complaints) -> None:
    text = json.dumps({"hooks": {"enabled": True, "gate": {"command": ["a"]}}})
    assert complaints("c.json", text) == ["hooks.gate: unknown key (known: enabled, defaults, builtins, processes)"]


def test_a_timeout_that_is_too_large_is_a_mistake(complaints: Complaints) -> None:
    text = json.dumps({"hooks": {"defaults": {"approval_timeout_ms": 10**400}}})
    (complaint,) = complaints("c.json", text)
    assert complaint.startswith("hooks.defaults.approval_timeout_ms: must be 1000000000 or less, not 1000")


def test_keys_given_twice_matter_below_hooks_only(complaints: Complaints) -> None:
    text = (
        gate().replace('"priority": 100', '"priority": 1, "priority": 100').replace("{", '{"x": {"a": 1, "a": 2}, ', 1)
    )
    assert complaints("c.json", text) == ["hooks.processes.gate.priority: is given twice"]
