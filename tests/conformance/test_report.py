"""What the two commands print, write and return."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import preloaded
import pytest

from picohook.conformance import report as reports
from picohook.conformance.manifest import load

from . import mutant_hook

ROOT = Path(__file__).parents[2]
HELLO = '{"jsonrpc":"2.0","id":7,"method":"hook.hello","params":{"name":"p","version":1,"modes":[]}}\n'
HOOK = [preloaded.path_of("python", "hooks"), mutant_hook.__file__]


def picohook(*arguments, **env):
    clean = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}
    env = {**clean, "PYTHONPATH": str(ROOT), **env}
    done = preloaded.run([*arguments], env=env, stdin=subprocess.DEVNULL, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def conformance(*arguments, **env):
    return picohook("conformance", *arguments, **env)


def test_a_table_for_people():
    done = conformance("--only", "HELLO-1", "--only", "STAGE-5", "--", *HOOK, FORCE_COLOR="1")
    assert done.returncode == 0
    assert [line.split(None, 3) for line in done.stdout.splitlines()[1:3]] == [
        ["HELLO-1", "MUST", "ok", "answers hook.hello"],
        ["STAGE-5", "MUST", "ok", "approves with true or false"],
    ]
    assert done.stdout.splitlines()[-2:] == ["MUST: 2 hold, 0 do not, 0 skipped", "conforming"]
    assert "\x1b" not in done.stdout


def test_a_failure_is_shown_with_the_expectation():
    done = conformance("--only", "STAGE-5", *HOOK, "--break", "STAGE-5")
    assert done.returncode == 1
    shown = [line.strip() for line in done.stdout.splitlines()]
    assert "STAGE-5 (MUST): approves with true or false" in shown
    assert "expected  `approved` as true or false as the answer to hook.approve_tool" in shown
    assert 'but       it answered {"jsonrpc": "2.0", "id": 2, "result": {"approved": "yes"}}' in shown
    assert shown[-1] == "not conforming"


def test_a_should_that_fails_is_shown_and_does_not_fail_the_run():
    done = conformance("--only", "END-2", "--", *HOOK, "--break", "END-2")
    assert done.returncode == 0
    assert "END-2 (SHOULD): ends well" in done.stdout


def test_json_for_programs():
    done = conformance("--json", "--only", "STAGE-5", "--", *HOOK, "--break", "STAGE-5")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    (result,) = report.pop("requirements")
    assert report == {
        "format": 1,
        "protocol": 1,
        "side": "hook",
        "subject": " ".join([*HOOK, "--break", "STAGE-5"]),
        "ok": False,
        "complete": True,
    }
    assert result == {
        "id": "STAGE-5",
        "level": "MUST",
        "title": "approves with true or false",
        "status": "fail",
        "expected": "`approved` as true or false as the answer to hook.approve_tool",
        "said": 'it answered {"jsonrpc": "2.0", "id": 2, "result": {"approved": "yes"}}',
    }


def test_junit_for_ci(tmp_path):
    file = tmp_path / "junit.xml"
    asked = ("--only", "STAGE-5", "--only", "END-2", "--only", "ID-1", "--junit", str(file))
    assert conformance(*asked, "--", *HOOK, "--break", "STAGE-5").returncode == 1
    suite = ET.parse(file).getroot().find("testsuite")
    cases = {case.get("name").split()[0]: [child.tag for child in case] for case in suite}
    assert cases == {"ID-1": [], "STAGE-5": ["failure"], "END-2": []}
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "0")


def test_junit_of_any_message_is_xml():
    one, other, third = load("hook").requirements[:3]
    results = [
        reports.Result(one, reports.FAIL, "<&>", "\\x00 ]]> \\x1b"),
        reports.Result(other, reports.SKIP, said="not there"),
        reports.Result(load("hook")["END-2"], reports.FAIL, "0", "1"),
        reports.Result(third, reports.PASS),
    ]
    suite = ET.fromstring(reports.junit(reports.Report(load("hook"), "a \x00 b", results))).find("testsuite")
    assert [[child.tag for child in case] for case in suite] == [["failure"], ["skipped"], ["skipped"], []]
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "2")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["conformance"], "Missing argument"),
        (["conformance", "--only", "NO-1", "--", "true"], 'there is no "NO-1"'),
        (["conformance", "--stages", "before_tol", "--", "true"], 'there is no "before_tol"'),
        (["conformance", "--", "/nowhere/hook"], "'/nowhere/hook' cannot be started: /nowhere/hook does not exist"),
        (
            ["conformance", "--", "no-such-hook"],
            "'no-such-hook' cannot be started: the command 'no-such-hook' is not on the PATH",
        ),
        (["conformance", "--", str(ROOT)], f"cannot be started: {ROOT} is a directory"),
        (["conformance", "--", str(ROOT / "LICENSE")], "is not executable: chmod +x it, or name its interpreter"),
        (["conformance", "--only", "ID-1", "--junit", "/nowhere/x", "--", "true"], "/nowhere/x cannot be written"),
        (["probe"], "Missing argument 'REPORT'"),
        (["probe", "/nowhere/report"], "Invalid value for REPORT: /nowhere/report cannot be written: No such file"),
        (["probe", str(ROOT)], "Invalid value for REPORT: " + str(ROOT) + " cannot be written: it is a directory"),
        (["probe", "--json", "report.json"], "--json needs --show"),
        (["probe", "--junit", "x.xml", "report.json"], "--junit needs --show"),
        (["probe", "--show", "/nowhere/report"], "/nowhere/report cannot be read"),
        (["probe", "--show", str(ROOT / "LICENSE")], "is not a report of a probe"),
    ],
)
def test_wrong_usage_is_2(arguments, complaint):
    done = picohook(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("#!/nowhere/python\n", "names the interpreter '/nowhere/python', which does not exist"),
        ("x\n", "names no interpreter"),
    ],
)
def test_a_script_without_its_interpreter_is_named(tmp_path, text, complaint):
    hook = tmp_path / "hook"
    hook.write_text(text)
    hook.chmod(0o755)
    done = picohook("conformance", "--", str(hook))
    assert done.returncode == 2
    assert complaint in done.stderr


def test_a_report_that_can_no_longer_be_written_is_an_error(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "picohook", "probe", str(place / "report.json")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as probe:
        probe.stdin.write(HELLO)
        probe.stdin.flush()
        assert json.loads(probe.stdout.readline())["result"]["ok"]
        shutil.rmtree(place)
        _, said = probe.communicate(timeout=30)
    assert (probe.returncode, said) == (1, f"Error: {place}/report.json cannot be written: No such file or directory\n")


def write_report(path, *, faults=(), complete=True):
    results = [
        reports.Result(one, reports.FAIL, one.wants, "it did not")
        if one.id in faults
        else reports.Result(one, reports.PASS)
        for one in load("host").requirements
    ]
    report = reports.Report(load("host"), 'the host of "probe"', results, complete)
    path.write_text(json.dumps(report.wire()))
    return report


@pytest.mark.parametrize(
    ("faults", "code"), [((), 0), (("HOST-ID-1",), 1), (("HOST-ID-3",), 0)], ids=["good", "MUST", "SHOULD"]
)
def test_a_probes_report_is_shown(tmp_path, faults, code):
    report = write_report(tmp_path / "report.json", faults=faults)
    done = picohook("probe", str(tmp_path / "report.json"), "--show")
    assert done.returncode == code
    assert all(f"{fault} (" in done.stdout for fault in faults)
    asked = picohook("probe", "--json", "--show", "--junit", str(tmp_path / "junit.xml"), str(tmp_path / "report.json"))
    assert asked.returncode == code
    assert json.loads(asked.stdout) == report.wire()
    assert ET.parse(tmp_path / "junit.xml").getroot().find("testsuite").get("failures") == str(code)


def test_an_unfinished_report_says_so(tmp_path):
    write_report(tmp_path / "report.json", complete=False)
    shown = picohook("probe", "--show", str(tmp_path / "report.json")).stdout
    assert "This report is not complete: the host did not close the probe's input, or has not yet." in shown
