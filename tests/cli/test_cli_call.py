from __future__ import annotations

import json

import pytest

CALL = '{"tool": "bash", "arguments": {"command": "ls"}}'

RENAME = """
def before_tool(params):
    return {"action": "modify", "call": {"arguments": {"command": "ls -la"}}}
"""
DENY = """
def before_tool(params):
    return {"action": "deny_tool", "reason": "not " + params["arguments"]["command"]}
"""


def call(project, *arguments, **options):
    return project("call", *arguments, "--config", "picohook.toml", **options)


def test_the_outcome_in_json_is_that_of_the_chain(project):
    project.hook("rename", RENAME, priority=1)
    project.hook("gate", DENY, priority=2)

    done = call(project, "before_tool", "--params", CALL, "--json")

    assert done.code == 0
    outcome = done.json
    assert list(outcome) == ["stage", "action", "payload", "reason", "trail"]
    assert outcome["stage"] == "before_tool"
    assert outcome["action"] == "deny_tool"
    assert outcome["reason"] == "not ls -la"
    assert outcome["payload"]["arguments"] == {"command": "ls -la"}
    assert [(entry["hook"], entry["action"], entry["error"]) for entry in outcome["trail"]] == [
        ("rename", "modify", None),
        ("gate", "deny_tool", None),
    ]
    rename, gate = outcome["trail"]
    assert set(rename) == {"hook", "action", "duration_ms", "error"}
    assert (set(gate) - set(rename), gate["reason"]) == ({"reason"}, "not ls -la")
    assert all(entry["duration_ms"] > 0 for entry in outcome["trail"])


def test_an_approval_says_whether_it_is_one_and_a_denial_is_an_outcome(project):
    project.hook("no", "def approve_tool(params): return {'approved': False, 'reason': 'no'}", stages="approve_tool")

    done = call(project, "approve_tool", "--params", CALL, "--json")

    assert (done.code, done.json["approved"], done.json["reason"]) == (0, False, "no")
    shown = call(project, "approve_tool", "--params", CALL)
    assert (shown.code, shown.out.splitlines()[:2]) == (0, ["approve_tool: denied", "  reason  no"])


def test_the_severity_of_a_denial_shows(project):
    project.hook("gate", DENY.replace("return {", "return {'severity': 'high', "))

    outcome = call(project, "before_tool", "--params", CALL, "--json").json
    assert (outcome["severity"], outcome["trail"][0]["severity"]) == ("high", "high")
    shown = call(project, "before_tool", "--params", CALL)
    assert shown.out.splitlines()[:3] == ["before_tool: deny_tool", "  reason    not ls", "  severity  high"]


def test_people_see_the_action_the_reason_the_changes_and_the_trail(project):
    project.hook("rename", RENAME, priority=1)
    project.hook("gate", DENY, priority=2)

    done = call(project, "before_tool", "--params", CALL)

    assert done.code == 0
    title, reason, changed, blank, header, *rows = done.out.splitlines()
    assert title == "before_tool: deny_tool"
    assert reason == "  reason   not ls -la"
    assert changed == '  changed  arguments.command: "ls" → "ls -la"'
    assert blank == ""
    assert header.split() == ["hook", "action", "time", "error"]
    assert [row.split()[:2] for row in rows] == [["rename", "modify"], ["gate", "deny_tool"]]
    assert all(row.endswith(" ms") for row in rows)


def test_people_see_additions_removals_and_notes_of_hooks(project):
    project.hook(
        "edit",
        """
        def before_llm(params):
            return {"action": "modify", "request": {"tools": [{"name": "b"}, {"name": "c"}], "options": {"a": 1}},
                    "patch": {"options": {"old": None}}, "system_message": "tools were added"}
        """,
        stages="before_llm",
    )

    done = call(project, "before_llm", "--params", '{"tools": [{"name": "a"}], "options": {"a": 1, "old": 2}}')

    assert '  changed         tools[0].name: "a" → "b"\n' in done.out
    assert '  changed         tools[1]: added {"name": "c"}\n' in done.out
    assert "  changed         options.old: removed 2\n" in done.out
    assert "  system_message  tools were added (edit)\n" in done.out


def test_notes_of_a_hook_are_in_the_trail_of_the_json(project):
    project.hook("note", "def before_tool(params): return {'additional_context': 'it is late'}")

    trail = call(project, "before_tool", "--params", CALL, "--json").json["trail"]

    assert trail[0]["notes"] == {"additional_context": "it is late"}


def test_a_failed_hook_shows_in_the_trail_and_is_an_outcome(project):
    project.hook("broken", "def before_tool(params): sys.exit(3)", on_failure="deny")

    done = call(project, "before_tool", "--params", CALL, "--json")

    assert (done.code, done.json["action"]) == (0, "deny_tool")
    assert "exited with code 3" in done.json["trail"][0]["error"]
    *_, row = call(project, "before_tool", "--params", CALL).out.splitlines()
    assert row.split()[:2] == ["broken", "deny_tool"]
    assert "exited with code 3" in row


@pytest.mark.parametrize("source", ["@params.json", "-"])
def test_params_come_from_a_file_or_from_standard_input(project, source):
    project.hook("gate", DENY)
    (project.path / "params.json").write_text(CALL)

    done = call(project, "before_tool", "--params", source, "--json", stdin=CALL if source == "-" else None)

    assert done.json["reason"] == "not ls"


def test_without_an_outcome_it_fails(project):
    project.hook("needed", "sys.exit(7)", required=True)

    done = call(project, "before_tool", "--params", CALL, "--json")

    assert (done.code, done.out) == (1, "")
    assert "Error: hook needed is required, and did not start: it exited with code 7" in done.err


@pytest.mark.parametrize(
    ("arguments", "complaints"),
    [
        (["before_tol"], ['Error: STAGE: "before_tol" is not a stage (did you mean "before_tool"?)']),
        (["before_tool", "--params", '{"tool":\n "x",,}'], ["Error: --params: line 2, column 6: is not JSON:"]),
        (["before_tool", "--params", "[1]"], ["Error: --params: must be an object, not a list"]),
        (["before_tool", "--params", '{"tool": "a", "tool": "b"}'], ["Error: --params: tool: is given twice"]),
        (
            ["before_tool", "--params", '{"arguments": [], "tol": "x", "meta": {"Turn": "1"}, "tool_kind": "red"}'],
            [
                "Error: --params: tool: is missing",
                "Error: --params: arguments: must be an object, not a list",
                'Error: --params: tol: unknown key (did you mean "tool"?)',
                'Error: --params: meta.Turn: unknown key (did you mean "TurnID"?)',
                'Error: --params: tool_kind: "red" is not one of readonly, write, execute',
            ],
        ),
        (["before_llm", "--params", '{"tools": 1}'], ["Error: --params: tools: must be a list, not the number 1"]),
        (["before_tool", "--params", '{"tool": "a", "arguments": {"x": NaN}}'], ["Error: --params: the payload cannot"]),
        (["before_tool", "--params", "@missing.json"], ["Error: Invalid value: missing.json cannot be read: No such file"]),
        (["before_tool", "--params", CALL, "--config", "nope.toml"], ["Error: Invalid value: there is no file nope.toml"]),
        ([], ["Error: Missing argument"]),
    ],
)  # fmt: skip
def test_wrong_usage_is_named_and_nothing_is_started(project, arguments, complaints):
    project.hook("marker", "open('started', 'w')")

    done = project("call", "--config", "picohook.toml", *arguments)

    assert (done.code, done.out) == (2, "")
    for complaint in complaints:
        assert complaint in done.err
    assert not (project.path / "started").exists()


def test_a_wrong_configuration_fails_with_every_mistake_and_nothing_is_started(project):
    project.hook("marker", "open('started', 'w')")
    project.table("a", command=["x"], stages=["before_tol"])
    project.table("b", command=["x"], stages=["before_tool"], priorty=1)

    done = call(project, "before_tool", "--params", CALL)

    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == [
        'Error: picohook.toml: hooks.a.stages[0]: "before_tol" is not a stage (did you mean "before_tool"?)',
        'Error: picohook.toml: hooks.b.priorty: unknown key (did you mean "priority"?)',
    ]
    assert not (project.path / "started").exists()


def test_mistakes_in_the_configuration_come_before_those_in_the_params(project):
    project.table("a", command=["x"], stages=["before_tol"])

    done = call(project, "before_tool", "--params", "{}")

    assert (done.code, done.out) == (1, "")
    assert "picohook.toml: hooks.a.stages[0]" in done.err
    assert "--params" not in done.err


def test_wrong_params_come_with_a_way_to_the_right_ones(project):
    project.hook("gate", DENY)

    done = call(project, "before_tool", "--params", '{"tol": "x"}')

    assert done.code == 2
    way_out = done.err.splitlines()[-1]
    assert way_out == "See the schema: picohook schema before_tool"
    assert project(*way_out.partition("picohook ")[2].split()).json["required"] == ["tool"]


def test_a_stage_without_hooks_says_so(project):
    project.hook("gate", DENY)

    done = call(project, "before_finish")

    assert (done.code, done.out) == (0, "before_finish: continue\n  hooks  no hook is asked at this stage\n")


def test_the_log_of_the_host_is_shown_when_it_is_asked_for(project):
    project.hook("talker", "print('I am here', file=sys.stderr)")

    quiet = call(project, "before_tool", "--params", CALL, "--json")
    verbose = call(project, "before_tool", "--params", CALL, "--json", "-v")

    assert quiet.err == ""
    assert "INFO: stderr hook='talker' line='I am here'\n" in verbose.err
    assert json.loads(verbose.out)["action"] == "continue"


def test_output_of_a_hook_in_this_process_is_not_data(project):
    (project.path / "beside.py").write_text("def decide(payload):\n    print('from the hook')\n")
    project.table("function", python="beside:decide", stages=["before_tool"])

    done = call(project, "before_tool", "--params", CALL, "--json")

    assert done.json["trail"][0]["action"] == "continue"
    assert done.err == "from the hook\n"


def test_warnings_of_the_host_are_on_stderr(project):
    project.hook("noisy", "print('no JSON', flush=True)")

    done = call(project, "before_tool", "--params", CALL, "--json")

    assert done.json["action"] == "continue"
    assert "WARNING: dropped a line hook='noisy'" in done.err


def test_no_control_character_of_a_hook_reaches_the_terminal(project):
    hostile = "\\x1b[2J\\x9b31m\\r\\n\\u202eevil"
    project.hook(
        "editor",
        f"""
        print("err{hostile}", file=sys.stderr, flush=True)
        def before_tool(params):
            return {{"call": {{"arguments": {{"key{hostile}": "{hostile}"}}}}, "system_message": "sys{hostile}"}}
        """,
        priority=1,
    )
    project.hook(
        "refuser", f"def before_tool(params): return {{'action': 'deny_tool', 'reason': 'red{hostile}'}}", priority=2
    )
    project.hook("failer", f"def approve_tool(params): return {{'action': '{hostile}'}}", stages="approve_tool")

    tool = call(project, "before_tool", "--params", CALL, "-v")
    approval = call(project, "approve_tool", "--params", CALL)
    as_json = call(project, "before_tool", "--params", CALL, "--json")

    assert all(f"{word}\\x1b[2J\\x9b31m\\r\\n\\u202eevil" in tool.out for word in ("red", "sys"))
    assert r"err\x1b[2J" in tool.err
    assert "\\x9b31m" in approval.out
    assert as_json.json["reason"] == "red\x1b[2J\x9b31m\r\n\u202eevil"
    for done in (tool, approval, as_json):
        assert not {"\x1b", "\x9b", "\r", "\u202e"} & set(done.out + done.err)


def test_a_cause_is_shown_once_and_not_escaped_twice(project):
    said = """KeyError: 'it said "no"'"""
    (project.path / "said.txt").write_text(said)
    project.table("gate", run="cat said.txt >&2; exit 4", stages=["before_tool"], on_failure="deny")

    done, loud = (call(project, "before_tool", "--params", CALL, *more) for more in ((), ("-v",)))

    assert done.err == ""
    assert done.out.count("it exited with code 4") == 1
    assert f"it exited with code 4; it said: {said}" in done.out
    assert "  reason  hook gate failed: it crashed, or did not start" in done.out
    assert loud.err.count("it exited with code 4") == 1
    assert "\\" not in done.out + loud.err


def test_a_hint_is_shown_with_the_line_that_it_is_about(project):
    greeting = '{"jsonrpc": "2.0", "id": 1, "result": {}}'
    (project.path / "hook.sh").write_text(f"read a; echo '{greeting}'; read b; echo '{{'; read c\n")
    project.table("gate", command=["/bin/sh", "hook.sh"], stages=["before_tool"], timeout=0.3)

    done = call(project, "before_tool", "--params", CALL)

    assert done.out.count("it prints JSON over several lines") == 1
    assert "WARNING: dropped a line hook='gate'" in done.err
    assert "line='{'" in done.err


def test_a_failure_that_is_not_in_the_outcome_is_warned_of_once(project):
    project.table("other", command=["/bin/sh", "-c", "exit 3"], stages=["after_tool"])

    done = call(project, "before_tool", "--params", CALL)

    assert done.err.count("it exited with code 3") == 1


def test_the_raw_lines_are_shown_and_recorded_on_request(project):
    answer = '{"jsonrpc": "2.0", "id": 2, "result": {"action": "deny_tool"}}'
    greeting = '{"jsonrpc": "2.0", "id": 1, "result": {}}'
    (project.path / "hook.sh").write_text(f"read a; echo '{greeting}'; read b; echo '{answer}'; read c\n")
    project.table("gate", command=["/bin/sh", "hook.sh"], stages=["before_tool"])

    done = call(project, "before_tool", "--params", CALL, "--wire", "--record", "record.jsonl")

    sent, came = (
        [line for line in done.err.splitlines() if line.startswith(f"{arrow} gate  ")] for arrow in ("→", "←")
    )
    assert [json.loads(line.partition("  ")[2])["method"] for line in sent] == ["hook.hello", "hook.before_tool"]
    assert came == [f"← gate  {greeting}", f"← gate  {answer}"]
    recorded = [json.loads(line) for line in (project.path / "record.jsonl").read_text().splitlines()]
    assert [(line["sent"], line["line"]) for line in recorded if line["type"] == "wire"][1] == (False, greeting)
    assert f"←  gate  {answer}" in project("trace", "record.jsonl").out
    assert "→ gate" not in call(project, "before_tool", "--params", CALL).err


def test_arguments_given_as_text_are_an_error_that_names_the_right_type(project):
    project.table("gate", command=["/bin/sh", "-c", "exit 3"], stages=["before_tool"])

    done = call(project, "before_tool", "--params", '{"tool": "bash", "arguments": "ls -l"}')

    assert done.code == 2
    assert 'Error: --params: arguments: must be an object, not the string "ls -l"' in done.err
