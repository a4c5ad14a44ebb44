"""`picohook doctor`: what it finds, and that whatever is not well comes with what to do about it."""

from __future__ import annotations

import json
import re
import signal
import sys

import pytest
from program import PATIENCE, in_terminal, read_line, reading

from picohook.cli.doctor import files, programs
from picohook.cli.doctor.findings import Level
from picohook.config import load
from picohook.projects.layers import named

GUARD = """
def before_tool(params):
    if params["arguments"].get("command") == "rm":
        return {"action": "deny_tool", "reason": "not\\x1b[31m that"}
    return {"action": "continue"}
def approve_tool(params):
    return {"approved": params["tool"] != "format"}
"""
RM = {"tool": "bash", "arguments": {"command": "rm"}}


def toml(value):
    """An inline table, a list, or what JSON and TOML write alike."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


def gate(project, name="gate", source=GUARD, *, canary=None, **settings):
    settings = {"on_failure": "deny", **settings}
    script = project.hook(name, source, **settings)
    if canary is not None:
        project.config.write_text(project.config.read_text() + f"canary = {toml(canary)}\n")
    return script


class Report:
    def __init__(self, done):
        self.code = done.code
        self.document = done.json
        self.findings = self.document["findings"]

    def of(self, about, check=None):
        return [one for one in self.findings if one["about"] == about and check in (None, one["check"])]

    def one(self, about, check):
        (finding,) = self.of(about, check)
        return finding


@pytest.fixture
def examine(project):
    """The report on a configuration that is named, or on what is found with `named=False`."""

    def run(*arguments, named=True, **options):
        config = ["--config", str(project.config)] if named else []
        done = project("doctor", "--json", *config, *arguments, **options)
        assert done.err == "", done.err
        report = Report(done)
        levels = [one["level"] for one in report.findings]
        assert report.document["counts"] == {level: levels.count(level) for level in ("ok", "note", "warning", "error")}
        assert (report.code, report.document["ok"]) == ((1, False) if "error" in levels else (0, True))
        assert all(bool(one["hint"]) == (one["level"] != "ok") for one in report.findings)
        return report

    return run


def test_a_gate_that_works_is_started_and_denies_its_canary(project, examine):
    gate(project, canary=RM)

    report = examine()

    assert report.code == 0
    assert {one["level"] for one in report.of("hook gate")} == {"ok"}
    assert "says hello" in report.one("hook gate", "start")["message"]
    command = report.one("hook gate", "command")["message"]
    assert command.startswith(f"runs {sys.executable} (Python {sys.version.split()[0]}")
    assert report.one("hook gate", "canary")["message"] == (
        'it denies bash {"command": "rm"} at before_tool: not\\x1b[31m that'
    )


def test_a_hook_in_shadow_is_started_and_asked_about_its_canary(project, examine):
    gate(project, canary=RM, mode="shadow")

    report = examine()

    assert "says hello" in report.one("hook gate", "start")["message"]
    assert report.one("hook gate", "canary")["level"] == "ok"


def test_doctor_shows_how_the_machine_contains_hooks(project, examine):
    gate(project, canary=RM)

    report = examine()

    checks = [one["check"] for one in report.of("this machine")]
    assert checks == ["version", "containment"]
    tier = report.one("this machine", "containment")["message"].partition(":")[0]
    assert f"containment: {tier}" in report.one("hook gate", "start")["message"]


def test_a_gate_that_does_not_deny_its_canary_itself_is_an_error(project, examine):
    expected = {
        "allows": ("def before_tool(params): return {}", "(before_tool: continue)"),
        "changes": ("def before_tool(params): return {'call': {'tool': 'other'}}", "(before_tool: modify)"),
        "answers": ("def before_tool(params): return {'action': 'respond', 'result': {}}", "(before_tool: respond)"),
        "crashes": ("def before_tool(params): sys.exit(3)", "(before_tool: it failed, it exited with code 3)"),
        "nonsense": ("def before_tool(params): return {'action': 'denied'}", "(before_tool: it failed, "),
        "filtered": (GUARD, "its filter keeps it from being asked"),
    }
    for name, (source, _) in expected.items():
        gate(project, name, source, canary=RM)
    project.config.write_text(project.config.read_text() + 'filter = { tool = "web" }\n')

    report = examine()

    assert report.code == 1
    for name, (_, why) in expected.items():
        finding = report.one(f"hook {name}", "canary")
        assert finding["level"] == "error"
        assert why in finding["message"]


def test_a_denial_at_either_stage_counts_and_a_failing_approver_proves_nothing(project, examine):
    both = ["before_tool", "approve_tool"]
    gate(project, "approver", canary={"tool": "format"}, stages=both)
    crashing = "def approve_tool(params): sys.exit(1)"
    gate(project, "crashing", crashing, canary=RM, stages="approve_tool")

    report = examine()

    assert report.one("hook approver", "canary")["message"] == "it denies format {} at approve_tool"
    assert report.one("hook crashing", "canary")["level"] == "error"


def test_a_gate_is_tried_alone(project, examine):
    gate(project, "first", "def before_tool(params): return {'action': 'deny_tool'}", canary=RM, priority=1)
    gate(project, "second", "def before_tool(params): return {}", canary=RM, after=["first"])

    report = examine()

    assert report.one("hook first", "canary")["level"] == "ok"
    assert report.one("hook second", "canary")["level"] == "error"


def test_gates_without_a_canary_and_gates_that_fail_open_are_pointed_out(project, examine):
    gate(project, "silent", guard=True)
    gate(project, "open", canary=RM, on_failure="continue")
    gate(project, "perhaps", on_failure="continue")
    gate(project, "observer", stages="after_tool", on_failure="continue")

    report = examine()

    assert report.code == 0
    assert [(one["level"], one["check"]) for one in report.of("hook silent") if one["level"] != "ok"] == [
        ("warning", "gate")
    ]
    assert "no canary" in report.one("hook silent", "gate")["message"]
    assert report.one("hook open", "gate")["message"].startswith("it fails open")
    assert report.one("hook open", "gate")["hint"] == 'set on_failure = "deny"'
    assert report.one("hook perhaps", "gate")["level"] == "note"
    assert report.of("hook observer", "gate") == []


def test_hooks_that_do_not_start_say_why_and_the_others_are_tried(project, examine):
    project.table("gone", command=["./gone"], stages=["after_tool"])
    project.table("lost", command=[sys.executable, "lost.py"], stages=["after_tool"])
    project.hook("crashing", "print('no key', file=sys.stderr); sys.exit(4)", stages="after_tool")
    project.hook("refusing", "def hello(params): return {'ok': False, 'reason': 'tired'}", stages="after_tool")
    gate(project, canary=RM)

    report = examine()

    assert report.code == 1
    for name, check, why in (
        ("gone", "command", "gone does not exist"),
        ("lost", "command", f"there is no {project.path}/lost.py"),
        ("crashing", "start", "it exited with code 4; it said: no key"),
        ("refusing", "start", "tired"),
    ):
        finding = next(one for one in report.of(f"hook {name}", check) if one["level"] == "error")
        assert why in finding["message"]
    assert report.one("hook gate", "canary")["level"] == "ok"


def test_settings_that_refer_to_other_hooks_do_not_prevent_a_try(project, examine):
    project.hook("broken", "sys.exit(1)", required=True)
    gate(project, canary=RM, after=["broken"], required=True)

    assert examine().one("hook gate", "canary")["level"] == "ok"


def test_hooks_that_hang_do_not_keep_doctor_from_ending(project, examine):
    settings = {"canary": RM, "hello_timeout": 1e6, "timeout": 1e6, "grace": 1e6}
    mute = "import time, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1e6)"
    gate(project, "mute", mute, **settings)
    gate(project, "slow", "def before_tool(params):\n    import time; time.sleep(1e6)", **settings)
    (project.path / "waits.py").write_text("import time\ndef forever(call): time.sleep(1e6)\n")
    (project.path / "imports.py").write_text("import time\ntime.sleep(1e6)\n")
    project.table("imports", python="imports:f", stages=["before_tool"])
    project.table("waits", python="waits:forever", stages=["before_tool"], guard=True)
    project.config.write_text(project.config.read_text() + 'canary = { tool = "bash" }\n')

    report = examine("--timeout", "0.5")

    assert "hook.hello was not answered in time" in report.one("hook mute", "start")["message"]
    assert "no answer within 0.5 s" in report.one("hook slow", "canary")["message"]
    assert report.one("hook imports", "start")["message"] == "it is still being imported"
    assert "no answer in time" in report.one("hook waits", "canary")["message"]


def test_a_python_hook_that_blocks_its_host_is_an_error(project, examine):
    (project.path / "holds.py").write_text("import time\nasync def forever(call): time.sleep(1e6)\n")
    project.table("holds", python="holds:forever", stages=["before_tool"], guard=True)
    project.config.write_text(project.config.read_text() + 'canary = { tool = "bash" }\n')

    report = examine("--timeout", "0.5")

    assert "blocks the event loop of its process" in report.one("hook holds", "start")["message"]


def test_shell_commands_and_questions_to_a_model(project, examine):
    project.table("shell", run='echo \'{"action": "deny_tool"}\'', stages=["before_tool"], guard=True)
    project.config.write_text(project.config.read_text() + 'canary = { tool = "bash" }\n')
    project.table("asks", prompt="may it?", stages=["approve_tool"])

    report = examine()

    assert report.one("hook shell", "canary")["level"] == "ok"
    assert report.one("hook asks", "model")["level"] == "warning"


# Who else has a hand in it.


def test_an_untrusted_project_runs_nothing(project, examine):
    with reading(project.fifo("started")) as started:
        gate(project, source="open('started', 'w')\n" + GUARD, canary=RM)

        report = examine(named=False)

        assert started.read() == ""  # nobody has ever opened the other end
    path = str(project.config)
    assert report.code == 1
    assert [one["message"].partition(",")[0] for one in report.of(path, "trust") if one["level"] == "error"] == [
        f"{path} is not trusted yet",
        f"{project.path}/gate.py is not trusted yet",
    ]
    assert "picohook trust" in report.of(path, "trust")[0]["hint"]
    assert "not started" in report.one("hook gate", "start")["message"]
    assert report.of("hook gate", "canary") == []
    assert report.one("hook gate", "command")["message"] == f"runs {sys.executable}"


def test_a_trusted_project_is_tried_until_one_of_its_files_changes(project, examine):
    script = gate(project, canary=RM)
    assert project("trust").code == 0

    trusted = examine(named=False)
    script.write_text(script.read_text() + "# changed\n")
    changed = examine(named=False)

    path = str(project.config)
    assert trusted.code == 0
    assert [one["level"] for one in trusted.of(path, "trust")] == ["ok", "ok", "note"]
    assert "not files that they import" in trusted.of(path, "trust")[-1]["message"]
    assert trusted.one("hook gate", "canary")["level"] == "ok"
    assert [one["message"] for one in changed.of(path, "trust") if one["level"] == "error"] == [
        f"{script} changed since it was trusted, so these hooks do not run"
    ]
    assert changed.of("hook gate", "canary") == []


def test_X4_a_hook_whose_command_does_not_show_its_files_is_an_error_with_the_way_out(project, examine):
    project.table("gate", command=[sys.executable, "-m", "gate"], stages=["before_tool"])
    report = examine(named=False)
    (found,) = [one for one in report.of(str(project.config), "trust") if one["level"] == "error"]
    assert "hooks.gate: its command does not tell which files of the project it runs" in found["message"]
    assert "trust = [GLOB, ...]" in found["hint"]
    assert project("trust").code == 1


def test_a_project_can_be_named_by_its_directory(project, examine):
    gate(project, canary=RM)
    project("trust")
    here = project.path
    project.path = project.home

    report = examine(str(here), named=False)

    assert report.one("hook gate", "canary")["level"] == "ok"


def files_of(project):
    """What is found of the files, without running anything."""
    return list(files.examine(named(project.config)))


def programs_of(project):
    (spec,) = load(project.config).hooks
    return list(programs.examine(spec, may_run=False))


def at(level, findings):
    return [(one.check, one.message, one.hint) for one in findings if one.level is level]


def test_a_program_that_others_can_change_is_an_error(project):
    script = gate(project)
    assert at(Level.ERROR, programs_of(project)) == []
    script.chmod(0o666)

    ((check, message, hint),) = at(Level.ERROR, programs_of(project))

    assert (check, hint) == ("permissions", f"chmod o-w {script}")
    assert message == f"{script} can be written by everyone, who could make it run anything"


def test_a_directory_where_others_can_put_files_is_a_warning(project):
    gate(project)
    assert at(Level.WARNING, files_of(project)) == []
    project.path.chmod(0o777)

    exposed = ("permissions", f"every user can replace files in {project.path}", f"chmod o-w {project.path}")
    assert at(Level.WARNING, files_of(project)) == [exposed]
    assert at(Level.ERROR, programs_of(project)) == [exposed]
    project.path.chmod(0o1777)
    assert at(Level.WARNING, files_of(project)) == []


def test_a_configuration_with_mistakes_names_them_all(project, examine):
    project.table("one", command=["sh"], stages=["before_tol"])
    project.table("two", stages=["before_tool"])

    report = examine()

    assert [(one["check"], one["message"].partition(":")[0]) for one in report.findings if one["level"] == "error"] == [
        ("configuration", "hooks.one.stages[0]"),
        ("configuration", "hooks.two"),
    ]


def test_a_setting_without_effect_is_a_warning(project):
    project.config.write_text('[hooks.late]\ncommand = ["sh"]\nstages = ["after_tool"]\ncanary = { tool = "x" }\n')

    ((_, message, _),) = at(Level.WARNING, files_of(project))

    assert "hooks.late.canary: it is for before_tool and approve_tool" in message


# As a command.


def test_findings_are_grouped_by_their_subject(project):
    gate(project, canary=RM)
    gate(project, "open", canary={"tool": "x"}, on_failure="continue")

    done = project("doctor", "--config", "picohook.toml")

    assert (done.code, done.err) == (1, "")
    assert "\x1b" not in done.out
    lines = done.out.splitlines()
    place = lines.index("hook open")
    assert lines.index("this machine") < lines.index(str(project.config)) < lines.index("hook gate") < place
    warning = lines.index(
        "  warning  gate: it fails open: while it is down or hangs, before_tool allows what it would deny"
    )
    assert lines[warning + 1] == '           → set on_failure = "deny"'
    assert lines[-1].startswith("1 error, 1 warning")


def test_it_fits_a_narrow_terminal(project):
    gate(project, canary=RM)

    shown = in_terminal(project, "doctor", "--config", "picohook.toml", COLUMNS="60", NO_COLOR="1")

    assert max(map(len, shown.replace("\r", "").splitlines())) <= 60


def test_no_configuration_is_a_warning(project, examine):
    report = examine(named=False)

    assert [one["message"] for one in report.findings if one["level"] == "warning"] == [
        "no hook was found for this directory, so nothing is guarded"
    ]


def test_a_trusted_configuration_that_is_gone_is_an_error(project, examine):
    gate(project, canary=RM)
    assert project("trust").code == 0
    project.config.unlink()
    report = examine(named=False)
    assert [one["message"] for one in report.findings if one["level"] == "error"] == [
        "is trusted, and is not there any more, so no hook runs"
    ]


def test_a_configuration_can_be_named_as_an_argument_too(project, examine):
    gate(project, canary=RM)
    other = project.config.rename(project.path / "other.toml")

    found = examine(str(other), named=False)

    assert found.one("hook gate", "canary")["level"] == "ok"
    assert found.one(str(other), "trust")["level"] == "ok"


@pytest.mark.parametrize(
    ("source", "check"),
    [("open('inside', 'w')", "start"), ("def before_tool(params): open('inside', 'w')", "canary")],
    ids=["start", "canary"],
)
def test_a_finding_about_a_hook_that_fails_in_its_sandbox_says_so(project, examine, source, check):
    gate(project, "held", source, canary=RM)
    with project.config.open("a") as file:
        file.write("sandbox = {}\n")

    found = examine()

    if "no sandbox works here" in found.one("hook held", "start")["message"]:
        pytest.skip("nothing here can sandbox")
    failed = found.one("hook held", check)
    assert failed["level"] == "error"
    # bubblewrap mounts what is outside read-only, Landlock refuses the access.
    assert re.search("Read-only file system|Permission denied", failed["message"])
    assert failed["hint"].startswith("allow what it needs in its sandbox")


@pytest.mark.parametrize(
    "arguments",
    [("--config", "nowhere.toml"), ("nowhere",), ("--config", "picohook.toml", "."), ("--timeout", "0")],
)
def test_wrong_usage(project, arguments):
    gate(project)

    assert project("doctor", *arguments).code == 2


def test_an_interrupt_ends_the_hooks_that_are_tried(project):
    source = "open('started', 'w').write('here')\nkept = open('held', 'w')\nimport time\ntime.sleep(1e6)"
    with reading(project.fifo("held")) as held, reading(project.fifo("started")) as started:
        gate(project, source=source, grace=0.2)
        with project.start("doctor", "--config", "picohook.toml", "--timeout", "600") as process:
            assert read_line(started) == "here"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
        assert held.read() == ""


def test_an_approver_whose_answer_others_can_forge_is_noted(project, examine):
    gate(project, "piped", "def approve_tool(params): return {'approved': False}", canary=RM, stages="approve_tool")
    source = "def approve_tool(params): return {'approved': False}"
    gate(project, "socketed", source, canary=RM, stages="approve_tool", stdio="socket")
    gate(project, "guard", canary=RM)

    report = examine()

    assert report.code == 0
    finding = report.one("hook piped", "stdio")
    assert finding["level"] == "note"
    assert "can write an approval into it" in finding["message"]
    assert 'stdio = "socket"' in finding["hint"]
    assert not report.of("hook socketed", "stdio")
    assert not report.of("hook guard", "stdio")
    assert report.one("hook socketed", "canary")["level"] == "ok"


@pytest.fixture(autouse=True)
def _commands_are_shown(project):
    project.python = sys.executable
