"""The requirements for hooks: each is broken by its mutant alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import preloaded
import pytest

from picohook import PicohookError
from picohook.conformance.hook import run
from picohook.conformance.manifest import load
from picohook.conformance.outcome import difference

from . import mutant_hook

ROOT = Path(__file__).parents[2]
# Imported, so that it is compiled once and not for each of the thousands of times that it is started.
BOOT = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import mutant_hook; mutant_hook.main()"
REAL = [sys.executable, "-I", "-S", "-c", BOOT]
GOOD = [preloaded.path_of("python", "hooks"), "-c", BOOT]
GRACE = {"END-1": 1.0, "END-4": 1.0}
"""Shorter for mutants that have to be waited for."""

IDS = load("hook").ids


def statuses(report):
    return {one.requirement.id: (one.status, one.expected, one.said) for one in report.results if one.status != "pass"}


def test_the_good_hook_passes_every_requirement():
    report = run(REAL, profile="picohook", timeout=20, grace=20)
    assert statuses(report) == {}
    assert tuple(one.requirement.id for one in report.results) == IDS
    assert report.ok


def test_each_requirement_has_its_mutant_and_each_mutant_its_requirement():
    mutants = {name.replace("_", "-") for name in vars(mutant_hook) if name[0].isupper() and name[-1].isdigit()}
    assert mutants == set(IDS)


@pytest.mark.parametrize("requirement", IDS)
def test_a_mutant_breaks_its_requirement_and_no_other(requirement):
    grace = GRACE.get(requirement, 20)
    report = run([*GOOD, "--break", requirement], profile="picohook", timeout=20, grace=grace)
    found = statuses(report)
    assert {one for one, (status, _, _) in found.items() if status == "fail"} == {requirement}, found
    assert report.ok is (load("hook")[requirement].level != "MUST")
    assert found[requirement][1]
    assert found[requirement][2]


def test_one_requirement_can_be_checked_alone():
    report = run([*GOOD, "--break", "REPLY-1"], only=["ID-1", "REPLY-1"])
    assert [(one.requirement.id, one.status) for one in report.results] == [("ID-1", "pass"), ("REPLY-1", "fail")]
    assert report.results[1].said == (
        'in the run for HELLO-1, it wrote {"id": 1, "result": {"ok": true, "name": "mutant", '
        '"capabilities": {"cancel": true, "ping": true, "progress": false, "stream": true}}}'
    )


def test_a_named_stage_has_to_be_served():
    logger = [sys.executable, os.fspath(ROOT / "hooks_examples" / "logger.py")]
    (free,) = run(logger, only=["STAGE-5"]).results
    (claimed,) = run(logger, only=["STAGE-5"], stages=["approve_tool"]).results
    assert (free.status, free.said) == ("skip", "it approves nothing")
    assert (claimed.status, claimed.said) == (
        "fail",
        'it answered {"jsonrpc": "2.0", "id": 2, "result": {"action": "continue"}}',
    )


def test_a_hook_that_ends_before_it_answers_is_shown_with_its_stderr():
    (result,) = run([sys.executable, "-c", "raise SystemExit('no \\x1b[31mlicence')"], only=["HELLO-1"]).results
    assert (result.expected, result.said) == (
        "an answer to hook.hello with id 1",
        "it ended with exit code 1: no \\x1b[31mlicence",
    )


def test_output_that_a_grandchild_keeps_open_is_waited_for_no_longer_than_the_grace(tmp_path):
    # The grandchild reads a pipe that nobody writes to: it ends with the group, or never.
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f'sh -c "cat {fifo}" & exec "$@"'
    report = run(["sh", "-c", script, "sh", *GOOD], only=["END-1", "HELLO-1", "REPLY-1"], timeout=20, grace=2)
    assert statuses(report) == {}


def test_a_command_that_cannot_be_started_is_an_error():
    with pytest.raises(PicohookError, match="'/nowhere/hook' cannot be started: /nowhere/hook does not exist"):
        run(["/nowhere/hook"])


def test_few_processes_play_all_requirements(tmp_path):
    starts = tmp_path / "starts"
    report = run(["sh", "-c", f'echo >> {starts}; exec "$@"', "sh", *GOOD], profile="picohook", timeout=20, grace=20)
    assert statuses(report) == {}
    assert starts.read_text().count("\n") == 13


def test_a_requirement_that_fails_after_others_holds_if_it_holds_alone():
    found = statuses(run([*GOOD, "--break", "EndsEarly"], profile="picohook", timeout=20, grace=20))
    assert {one for one, (status, _, _) in found.items() if status == "fail"} == {"CALL-1"}


def test_a_bad_line_that_two_requirements_cause_together_is_found():
    (result,) = run([*GOOD, "--break", "Mixed"], only=["STDOUT-1"], profile="picohook", timeout=20, grace=20).results
    assert (result.status, result.said) == ("fail", 'in the run for STAGE-8, it wrote "both"')


# A hook of PicoClaw's: it answers an error of its own to what it does not know, and knows PicoClaw's stages alone.

PICOCLAWS = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, ask = message.get("method"), message.get("id")
    if not ask:
        continue
    if method in {methods}:
        said = {{"result": {{"ok": True, "name": "x", "action": "{action}", "approved": True, **{more}}}}}
    else:
        said = {{"error": {{"code": -32000, "message": "'method not found: " + str(method) + "'"}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": ask, **said}}), flush=True)
"""
TOOLS = ("hook.hello", "hook.before_tool", "hook.after_tool", "hook.approve_tool")


def picoclaws(*methods, action="continue", **more):
    return [preloaded.path_of("python", "hooks"), "-c", PICOCLAWS.format(methods=methods, action=action, more=more)]


def broken(report):
    return [one.requirement.id for one in report.results if one.broken]


def test_a_hook_for_picoclaw_does_not_fail_for_other_stages():
    only = [f"STAGE-{number}" for number in range(1, 10)]
    report = run(picoclaws(*TOOLS), only=only)
    assert broken(report) == []
    skipped = {one.requirement.id: one.said for one in report.results if one.status == "skip"}
    assert skipped["STAGE-1"] == "it was not asked to serve before_prompt: use --stages before_prompt"
    assert skipped["STAGE-2"] == "it does not serve before_llm"
    assert set(only) - skipped.keys() == {"STAGE-4", "STAGE-5", "STAGE-6"}


@pytest.mark.parametrize(("how", "held"), [({"stages": ["before_prompt"]}, "fail"), ({"profile": "picohook"}, "skip")])
def test_a_stage_is_checked_if_the_hook_was_asked_to_serve_it(how, held):
    (result,) = run(picoclaws(*TOOLS), only=["STAGE-1"], **how).results
    assert result.status == held


def test_its_own_error_for_unknown_methods_breaks_no_must():
    report = run(
        picoclaws("hook.hello", "hook.before_llm"), only=["CALL-2", "CALL-3", "LINE-1", "PAYLOAD-2", "STAGE-4"]
    )
    assert [one.status for one in report.results] == ["pass", "pass", "fail", "skip", "pass"]
    assert broken(report) == []


@pytest.mark.parametrize(
    ("requirement", "action", "more"),
    [
        ("STAGE-4", "pause", {}),
        ("STAGE-4", "modify", {"patch": {"arguments": {"n": 1}}}),
        ("STAGE-6", "modify", {"result": {"for_llm": "-"}}),
    ],
)
def test_with_picoclaws_profile_an_answer_that_picoclaw_cannot_read_fails(requirement, action, more):
    hook = picoclaws(*TOOLS, action=action, **more)
    assert [one.status for one in run(hook, only=[requirement]).results] == ["pass"]
    assert [one.status for one in run(hook, only=[requirement], profile="picoclaw").results] == ["fail"]


def test_an_unknown_profile_or_one_without_the_stage_is_an_error():
    with pytest.raises(PicohookError, match="unknown profile 'pico': use one of picoclaw, picohook"):
        run(GOOD, profile="pico")
    with pytest.raises(PicohookError, match="profile picoclaw: it has no before_prompt"):
        run(GOOD, profile="picoclaw", stages=["before_prompt", "before_tool"])


def test_one_cause_counts_once():
    dies = "import json, sys; json.loads(sys.stdin.readline()); print('hello'); raise SystemExit('no licence')"
    report = run([sys.executable, "-c", dies], only=["HELLO-1", "HELLO-3", "STDOUT-1"])
    assert {one.requirement.id: (one.status, one.same_as) for one in report.results} == {
        "HELLO-1": ("fail", ""),
        "HELLO-3": ("skip", ""),
        "STDOUT-1": ("fail", ""),
    }
    silent = """
import json, sys
for line in sys.stdin:
    if "hook.hello" in line:
        print(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}), flush=True)
"""
    report = run([sys.executable, "-c", silent], only=["LINE-2", "LINE-3", "PAYLOAD-2"], timeout=1)
    assert [(one.status, one.same_as) for one in report.results] == [
        ("fail", ""),
        ("fail", "LINE-2"),
        ("fail", "LINE-2"),
    ]
    assert report.ok is False


ECHOES = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("id"):
        params = message["params"]
        said = {"action": "modify", "call": params} if message["method"] == "hook.before_tool" else {"approved": True}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": said}), flush=True)
"""


@pytest.mark.parametrize(("profile", "status"), [(None, "pass"), ("picoclaw", "fail")])
def test_an_answer_of_more_than_a_mebibyte_is_too_long_for_picoclaw_alone(profile, status):
    hook = [preloaded.path_of("python", "hooks"), "-c", ECHOES]
    report = run(hook, only=["LINE-1", "STDOUT-5"], profile=profile, timeout=20, grace=20)
    assert [one.status for one in report.results] == [status, "pass"]


DENIES_FAILURES = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("id"):
        failed = message["params"].get("result", {}).get("is_error")
        said = {"action": "deny_tool" if failed else "continue"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": said}), flush=True)
"""


def test_a_hook_that_denies_a_tool_which_has_failed_does_not_conform():
    hook = [preloaded.path_of("python", "hooks"), "-c", DENIES_FAILURES]
    (result,) = run(hook, only=["STAGE-6"], stages=["after_tool"], timeout=20, grace=20).results
    assert (result.status, result.expected.startswith("a decision of after_tool")) == ("fail", True)


@pytest.mark.parametrize(
    ("wanted", "found", "said"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, None),
        ({"a": 1}, {"a": True}, "it.a is true, and not 1"),
        ({"a": 1}, {"a": 1.0}, "it.a is 1.0, and not 1"),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "it.a[1].b is 3, and not 2"),
        ({"a": [1]}, {"a": [1, 2]}, "it.a is [1, 2], and not [1]"),
        ({"a": 1}, {}, "it.a is missing"),
        ({}, {"a": 1}, "it.a is more than was there"),
        ("x" * 500 + "yes", "x" * 500 + "no", 'it differs at character 500: "no", and not "yes"'),
        ("abc", "ab", 'it differs at character 2: "", and not "c"'),
    ],
)
def test_a_difference_is_named_with_its_place_however_long_the_rest_is(wanted, found, said):
    assert difference(wanted, found, "it") == said
