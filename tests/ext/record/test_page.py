"""The page of a session. A browser shows it in `tests/docs/in_a_browser.py`."""

from __future__ import annotations

import base64
import gzip
import json
import re
import signal
import stat
import subprocess

import pytest
import transcripts_support as made

from picohook import Deny, FunctionHook, Host, Modify, Recorder, ToolResult

MARKUP = "</script><script>window.owned = 1</script><img src=x onerror=alert(1)><!--&\u2028\"'"


@pytest.fixture
def session(project):
    """Records a session with these calls, of which the first is denied and the second edited."""

    def record(*calls):
        def guard(call):
            if call.tool_call_id == "0":
                return Deny(f"no {calls[0][1]}")
            return Modify({"arguments": {"command": "edited"}}) if call.tool_call_id == "1" else None

        hooks = [FunctionHook("guard", {"before_tool": guard})]
        with Host.blocking(hooks, listeners=[Recorder(project.path / "session.jsonl")]) as host:
            for place, (tool, text, result) in enumerate(calls):
                call = {"tool": tool, "tool_call_id": str(place), "arguments": {"command": text}}
                host.run_tool(call, lambda _, result=result: ToolResult(for_llm=result))
        return project

    return record


def data(project, *more):
    """The page, its items, and its head."""
    done = project("trace", "session.jsonl", "--html", "page.html", *more)
    assert (done.code, done.out, done.err) == (0, "", "")
    return read(project)


def read(project):
    text = (project.path / "page.html").read_text()
    (packed,) = re.findall(r'<script type="text/plain" id="data">(.*?)</script>', text, re.DOTALL)
    *items, head = map(json.loads, gzip.decompress(base64.b64decode(packed)).splitlines())
    return text, items, head


def test_no_text_of_a_call_is_markup_and_the_page_may_load_nothing(session):
    project = session((MARKUP, MARKUP, MARKUP), ("bash", MARKUP, MARKUP))

    text, items, _ = data(project)

    without = text.replace(re.search(r'id="data">.*?</script>', text, re.DOTALL)[0], "")
    assert "owned" not in without
    assert text.count("<script") == 2
    assert items[0]["tool"] == MARKUP
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-\S{44}'; script-src 'sha256-\S{44}'; base-uri 'none'; form-action 'none'",
        policy,
    )
    assert not re.search(
        r"(src|href)\s*=|url\(|@import|fetch\(|innerHTML|insertAdjacentHTML|document\.write|eval\(", without
    )


def test_the_page_has_questions_answers_edits_verdicts_and_times(session):
    project = session(("bash", "rm", ""), ("bash", "ls", "done"))

    _, items, head = data(project)

    chains = [item for item in items if "number" in item]
    denied, edited = chains[0], chains[1]
    assert [denied[name] for name in ("name", "tool", "verdict", "why")] == [
        "before_tool",
        "bash",
        "deny_tool",
        "no rm",
    ]
    assert [denied["hooks"][0][name] for name in ("hook", "action", "text")] == ["guard", "deny_tool", "no rm"]
    assert edited["hooks"][0]["changes"] == ['arguments.command: "ls" → "edited"']
    assert '"command": "ls"' in edited["about"]
    assert all(isinstance(item["ended"], float) for item in chains)
    assert head["title"].startswith("recorded 20")


def test_long_texts_are_cut_with_their_length_and_secrets_are_hidden_even_at_the_cut(session):
    cut = "y" * 225 + " " + made.SECRET + "z" * 5000
    project = session(("bash", "rm", ""), ("bash", "x" * 5000, ""), ("bash", cut, ""), ("bash", f"T={made.SECRET}", ""))

    _, items, _ = data(project)
    _, everything, _ = data(project, "--full")
    shown, whole = json.dumps(items), json.dumps(everything)

    assert "x" * 241 not in shown
    assert any("… (5," in item["asked"] for item in items)
    assert "x" * 5000 in whole
    for page in (shown, whole):
        assert made.SECRET[:10] not in page
        assert "[secret]" in page


def test_no_beginning_of_a_secret_is_left_where_a_row_or_an_edit_is_cut(session):
    calls = [
        ("bash", "y" * length + " " + made.SECRET, "y" * length + " " + made.SECRET) for length in range(60, 460, 4)
    ]
    project = session(("bash", "rm", ""), ("bash", f"{'y' * 385} {made.SECRET}", ""), *calls)

    _, items, _ = data(project)

    for shown in (
        json.dumps(items),
        project("trace", "session.jsonl").out,
        project("trace", "session.jsonl", "--json").out,
    ):
        assert made.SECRET[:6] not in shown
        assert "yyyyy" in shown


def test_a_thousand_usual_calls_are_less_than_a_megabyte(session):
    calls = [
        ("Bash", f"git -C /home/ann/project/app log --oneline -n {n} -- src/main.py", "line of a log\n" * 70)
        for n in range(1000)
    ]

    text, items, _ = data(session(*calls))

    assert len([item for item in items if item["name"] == "before_tool"]) == 1000
    assert len(text.encode()) < 1_000_000


def test_only_the_owner_reads_it_and_no_other_file_is_replaced(session):
    project = session(("bash", "rm", ""))
    data(project)
    data(project)  # a page is replaced
    before = (project.path / "session.jsonl").read_bytes()

    done = project("trace", "session.jsonl", "--html", "session.jsonl")

    assert stat.S_IMODE((project.path / "page.html").stat().st_mode) == 0o600
    assert done.code == 1
    assert "session.jsonl exists, and is not a page of picohook: name another file" in done.err
    assert (project.path / "session.jsonl").read_bytes() == before


def test_a_damaged_record_leaves_the_page_that_is_there(session):
    project = session(("bash", "rm", ""))
    before, _, _ = data(project)
    (project.path / "damaged.jsonl").write_text((project.path / "session.jsonl").read_text() + "no JSON\n")

    done = project("trace", "damaged.jsonl", "--html", "page.html")

    assert done.code == 2
    assert "damaged.jsonl: line 8 is damaged" in done.err
    assert (project.path / "page.html").read_text() == before
    assert sorted(path.name for path in project.path.iterdir()) == ["damaged.jsonl", "page.html", "session.jsonl"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_trace_that_is_interrupted_leaves_the_page_that_is_there(session, number):
    project = session(("bash", "rm", ""))
    before, _, _ = data(project)
    header, *_ = (project.path / "session.jsonl").read_text().splitlines()
    event = json.dumps({"type": "event", "at": 0.0, "event": "turn_end", "payload": {"text": "x" * 1000}})

    with project.start("trace", "-", "--html", "page.html", stdin=subprocess.PIPE) as process:
        process.stdin.write("\n".join([header, *[event] * 1000]))  # more than a pipe holds: it is read by now
        process.stdin.flush()
        process.send_signal(number)
        process.wait()

    assert (project.path / "page.html").read_text() == before
    assert sorted(path.name for path in project.path.iterdir()) == ["page.html", "session.jsonl"]


def test_a_page_does_not_tell_when_it_was_made_and_is_written_to_a_pipe_too(session):
    project = session(("bash", "rm", ""))
    before, _, _ = data(project)
    (packed,) = re.findall(r'id="data">(\S*)', before)
    assert base64.b64decode(packed)[4:8] == bytes(4)  # the time in a header of gzip

    done = project("trace", "session.jsonl", "--html", "/dev/stdout")

    assert (done.code, done.out) == (0, before)


def test_a_page_that_cannot_be_written_is_told_before_hooks_are_asked(session):
    project = session(("bash", "rm", ""))
    project.hook("guard", "open('asked', 'w')")

    done = project("replay", "session.jsonl", "--against", "picohook.toml", "--effects", "--html", "no/page.html")

    assert (done.code, done.err) == (1, "Error: no/page.html cannot be written: No such file or directory\n")
    assert not (project.path / "asked").exists()


def test_the_page_of_a_back_test_says_first_how_hooks_were_asked(session):
    project = session(("bash", "rm", ""), ("bash", "ls", "done"))
    project.hook("guard", "")

    done = project("replay", "session.jsonl", "--against", "picohook.toml", "--html", "page.html")

    _, items, head = read(project)
    assert done.code == 1
    assert [*head] == ["title", "How", "Result"]
    assert head["How"].startswith("Hooks were asked in a sandbox, without a network")
    assert head["Result"] == done.out.strip()
    assert [(item["kind"], [row["when"] for row in item["hooks"]]) for item in items] == [
        ("newly allowed", ["then", "now"]),
        ("changed otherwise", ["then", "now"]),
    ]
