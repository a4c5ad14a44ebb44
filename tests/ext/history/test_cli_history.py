"""`picohook history`: what is printed, and the join with an audit log."""

from __future__ import annotations

import os

import pytest
import transcripts_support as made

from picohook import Host, Meta


@pytest.fixture
def project(project):
    """A project whose user has transcripts."""
    project.env["HOME"] = str(project.path / "home")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME"):
        project.env.pop(name, None)
    return project


def keep(project, *calls, name="S1", **more):
    path = project.path / f"home/.claude/projects/p/{name}.jsonl"
    return made.put(path, made.lines(*made.claude(*calls, session=name, **more)))


def test_tools_are_counted_with_what_they_were_called_and_their_outcomes(project):
    bash = [(f"b{n}", "Bash", {"command": f"git status {n}"}, n == 0, "") for n in range(3)]
    keep(
        project,
        *bash,
        ("e", "Edit", {"file_path": "/a/b.py"}, None, ""),
        ("c", "Bash", {"command": "/bin/ls"}, False, ""),
    )

    people, programs = project("history"), project("history", "claude", "--json")

    assert (people.code, people.err) == (0, "")
    assert people.out.splitlines() == [
        "agent   tool  calls  succeeded  failed  denied  unknown  first                      most often with",
        "claude  Bash      4          3       1       0        0  2026-03-01T10:00:00+00:00  git 3, ls 1",
        "claude  Edit      1          1       0       0        0  2026-03-01T10:00:03+00:00  *.py 1",
    ]
    bash, _, read = programs.lines
    assert (bash["tool"], bash["calls"], bash["failed"], bash["with"]) == ("Bash", 4, 1, {"git": 3, "ls": 1})
    assert (read["files"], read["damaged"], read["repeated"]) == (1, 0, 0)


def test_no_secret_is_printed(project):
    keep(project, ("a", made.SECRET, {"command": made.SECRET}, False, ""))

    for done in (project("history"), project("history", "--json")):
        assert done.code == 0
        assert made.SECRET not in done.out
        assert "[secret]" in done.out


def test_wrong_usage_names_the_way_out(project):
    for arguments, why in {
        ("clade",): "there are no transcripts of clade: give one of claude, codex, gemini, copilot",
        ("--since", "soon"): "'soon' is not a time: give days",
        ("--audit", "x"): "--audit needs --unasked",
        ("--unasked", "--audit", "none.jsonl"): "there is no file none.jsonl",
    }.items():
        done = project("history", *arguments)
        assert (done.code, done.out) == (2, "")
        assert why in done.err.replace("\n", " ")


def test_no_audit_log_is_an_error_with_a_way_out(project):
    project.hook("guard", "")
    keep(project, ("a", "Bash", {}, False, ""))

    done = project("history", "--unasked")

    assert (done.code, done.out) == (1, "")
    assert "name a log with --audit FILE" in done.err


@pytest.fixture
def audited(project):
    """A log that has a question about the call `asked`, one that no hook wanted, and one without an id in session S3."""
    project.hook("guard", "", stages="before_tool", filter={})
    project.config.write_text(project.config.read_text().replace("filter = {}", 'filter = { tool = "Bash" }'))
    with Host.blocking(project.config, audit=str(project.path / "audit.jsonl")) as host:
        for tool, number, session in (("Bash", "asked", "S1"), ("Read", "filtered", "S1"), ("Bash", None, "S3")):
            host.before_tool({"tool": tool, "tool_call_id": number, "meta": Meta(session_key=session)})
    return project


def test_a_call_that_ran_and_no_hook_was_asked_about_is_found(audited, monkeypatch):
    future = "2999-01-01T00:00:{:02d}.000Z"
    early = [("early", "Bash", {"command": "ls"}, False, "")]
    keep(audited, *early, name="S0")
    monkeypatch.setattr(made, "TIME", future)
    bash = {"command": f"rm {made.SECRET}"}
    keep(
        audited,
        ("asked", "Bash", bash, False, ""),
        ("filtered", "Read", {"file_path": "/a"}, None, ""),
        ("denied", "Bash", bash, True, "PreToolUse:Bash hook error: no"),
        ("gone", "Bash", bash, False, ""),
    )
    keep(audited, ("sub", "Bash", bash, True, "Exit code 1"), name="S2", agentId="a1")
    keep(audited, ("n1", "Bash", {}, False, ""), ("n2", "Bash", {}, False, ""), name="S3")

    people, programs = (audited("history", "--unasked", "--audit", "audit.jsonl", *json) for json in ((), ("--json",)))

    others = "asked: 1, asked no hook because of filters: 1, before the first record of the audit log, or without a time: 1, "
    others += "did not run, or the transcript does not say so: 1, in a session whose records have no ids of calls: 2"
    assert people.code == programs.code == 1
    assert made.SECRET not in people.out + programs.out
    assert [line.split()[:5] for line in people.out.splitlines()[1:-1]] == [
        ["claude", "S1", "main", "Bash", "1"],
        ["claude", "S2", "subagent", "Bash", "1"],
    ]
    assert people.out.splitlines()[-1] == f"2 calls ran and no hook was asked ({others})"
    first, second, verdicts, _ = programs.lines
    assert (first["session"], second["way"], verdicts["verdicts"]["unasked"]) == ("S1", "subagent", 2)


def test_the_log_of_the_configuration_is_used_and_all_asked_is_success(audited, monkeypatch):
    with audited.config.open("a") as file:
        file.write('\n[audit]\npath = "audit.jsonl"\n')
    assert audited("trust").code == 0
    monkeypatch.setattr(made, "TIME", "2999-01-01T00:00:{:02d}.000Z")
    keep(audited, ("asked", "Bash", {}, False, ""))

    done = audited("history", "--unasked")

    assert (done.code, done.out) == (0, "0 calls ran and no hook was asked (asked: 1)\n")


@pytest.mark.parametrize("options", [(), ("--json",), ("--unasked", "--audit", "audit.jsonl")])
def test_no_transcript_is_an_error(audited, options):
    done = audited("history", *options)

    assert done.code == 1
    assert "Error: no transcript was found" in done.err


@pytest.mark.parametrize("result", [(), (False, "")])
def test_calls_of_which_none_can_be_compared_are_no_success(audited, result):
    keep(audited, ("early", "Bash", {}, *result))

    done = audited("history", "--unasked", "--audit", "audit.jsonl")

    assert done.code == 1
    assert done.out.startswith("0 calls ran and no hook was asked (")
    assert done.err == "Error: nothing is proven: no call could be compared with the questions in the audit log\n"


def test_a_pipe_and_a_directory_with_the_name_of_a_transcript_are_not_read(project):
    directory = project.path / "home/.claude/projects/p"
    (directory / "S1.jsonl").mkdir(parents=True)
    os.mkfifo(directory / "S2.jsonl")

    done = project("history")

    assert done.code == 1
    assert "1 path not read: it is not a regular file" in done.err
    assert "1 path not read: it is a directory, not a file" in done.err
