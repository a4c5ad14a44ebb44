"""A call as a person sees it: nothing in it acts, hides or looks like something else."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from rows import each

from picohook.ext.approvals.view import MOST_SHOWN, plain, view

from .conftest import a_call


@each(
    ("text", "shown"),
    [
        ("git push\tnow\n", "git push\tnow\n"),
        (
            "caf\u00e9 Gr\u00f6\u00dfe na\u00efve \u65e5\u672c \u043f\u0440\u0438\u0432\u0435\u0442 \u05e9\u05dc\u05d5\u05dd",
            None,
        ),
        ("e\u0301", None),  # composed, it is a letter
        ("\x1b[2J\r\x00\x7f", "\\x1b[2J\\r\\x00\\x7f"),
        ("a\u202eb\u2066\u200f", "a\\u202eb\\u2066\\u200f"),
        ("a\u200bb\u00a0c\u3000\ufeff", "a\\u200bb\\xa0c\\u3000\\ufeff"),
        ("a\u3164\u2800\U000e0100\ufe0f", "a\\u3164\\u2800\\U000e0100\\ufe0f"),
        ("p\u0430ypal", "p\\u0430ypal"),
        ("\u0441\u043e\u0440", "\\u0441\\u043e\\u0440"),  # all its letters look Latin
        ("\u0391\u0392", "\\u0391\\u0392"),
        ("\uff52\uff4d", "\\uff52\\uff4d"),
        ("\U0001d5d4\ufb01", "\\U0001d5d4\\ufb01"),
        ("git push \u2013force", "git push \\u2013force"),
        ("one \u2013 two", None),
        ("\u2215etc\u2044x \u2019; rm", "\\u2215etc\\u2044x \\u2019; rm"),
        ("x\u0338", "x\\u0338"),
        ("\ud800", "\\ud800"),
        ("\u2028", "\\u2028"),
    ],
)
def test_text_cannot_deceive(text, shown):
    assert plain(text) == (text if shown is None else shown)


def seen(arguments, size=0, **about):
    call = json.dumps({"tool": "edit", "arguments": arguments}, ensure_ascii=False).encode()
    return view(a_call(call, **about))


def test_an_edit_is_shown_as_its_difference():
    one = seen({"file_path": "a.py", "old_string": "one\ntwo\nthree", "new_string": "one\n2\nthree"})
    assert [argument[0] for argument in one.arguments] == ["file_path"]
    assert one.diff[0] == ("@", "compared with the text that it replaces")
    assert one.diff[2:] == [(" ", "one"), ("-", "two"), ("+", "2"), (" ", "three")]


def test_a_file_that_is_written_is_compared_with_the_file(tmp_path):
    (tmp_path / "a.py").write_text("one\ntwo\n")
    one = seen({"path": "a.py", "content": "one\ntwo\r\n\u202e"}, directory=str(tmp_path))
    assert one.diff[0] == ("@", f"compared with {tmp_path}/a.py")
    assert [line for line in one.diff[2:] if line[0] == "+"] == [("+", "two\\r"), ("+", "\\u202e")]


@pytest.mark.parametrize("harm", ["missing", "fifo", "directory", "binary", "large"])
def test_a_file_that_cannot_be_compared_leaves_the_text_whole(tmp_path, harm):
    path = tmp_path / "a"
    {
        "missing": lambda: None,
        "fifo": lambda: os.mkfifo(path),
        "directory": path.mkdir,
        "binary": lambda: path.write_bytes(b"\xff\x00"),
        "large": lambda: path.write_bytes(b"x" * 100_000),
    }[harm]()
    one = seen({"path": "a", "content": "text"}, directory=str(tmp_path))
    assert (one.arguments, one.diff) == ([("path", "a"), ("content", "text")], [])


def test_an_edit_that_changes_nothing_or_too_much_is_shown_whole():
    for new in ("same", "\n".join(map(str, range(3000)))):
        one = seen({"old_string": "same", "new_string": new})
        assert one.arguments == [("old_string", "same"), ("new_string", new)]
        assert one.diff == []


def test_a_text_that_is_too_long_is_cut_and_that_is_said():
    one = seen({"content": "x" * MOST_SHOWN + "END"})
    assert one.arguments == [("content", "x" * MOST_SHOWN)]
    assert one.left_out.startswith("This call is too large to be shown here: 2")


def test_of_a_call_that_is_too_large_for_a_list_the_beginning_is_shown(queue, host):
    call = a_call(json.dumps({"tool": "write", "arguments": {"path": "a", "content": "x" * 500_000}}).encode())
    host.exchange([call])
    [listed] = queue.waiting()
    one = view(listed)
    assert (one.tool, one.arguments) == ("write", [("path", "a"), ("content", "x" * MOST_SHOWN)])
    assert f"{len(call.call)} bytes" in one.left_out


def test_it_says_what_guards_find_in_the_call():
    pytest.importorskip("tree_sitter_bash", reason="the extra guards")
    call = json.dumps({"tool": "bash", "arguments": {"command": "git push origin main --force; ls"}}).encode()
    assert "git.force-push-main: " in dict(view(a_call(call)).facts)["guards"]
    assert "guards" not in dict(view(a_call()).facts)


WITHOUT_GUARDS = """
import sys
sys.modules["tree_sitter"] = None
from picohook.ext.approvals.queue import Waiting
from picohook.ext.approvals.view import view
one = view(Waiting(b'{"tool":"bash","arguments":{"command":"ls -l"}}', 0.0, {"grants": True}))
print(one.arguments, [grant for _, grant in one.offers])
"""


def test_without_the_extra_for_guards_a_call_is_shown_and_no_grant_for_first_words_is_offered():
    program = [sys.executable, "-c", WITHOUT_GUARDS]
    shown = subprocess.run(program, check=True, capture_output=True, encoding="utf-8").stdout
    assert shown == "[('command', 'ls -l')] [{'for': 'project'}]\n"


def test_it_says_where_the_call_comes_from_and_why_a_person_is_asked():
    call = {
        "meta": {"AgentID": "coder", "Source": "turn", "SessionKey": "s1"},
        "tool": "bash",
        "tool_kind": "execute",
        "affected_paths": ["a", "b\u202e"],
        "context": {"cwd": "/w"},
    }
    about = {
        "hook": "person",
        "source": "/c.toml",
        "filter": {"tool": "bash"},
        "program": "p",
        "pid": 1,
        "directory": "/d",
    }
    facts = dict(view(a_call(json.dumps(call).encode(), **about)).facts)
    assert facts.pop("time left").endswith(" s")
    assert facts == {
        "where": "/d",
        "agent": "coder turn in p (pid 1)",
        "session": "s1",
        "asked": "by hook person of /c.toml, which asks about tool bash",
        "kind": "execute",
        "paths": "a, b\\u202e",
        "context": '{"cwd": "/w"}',
    }


def test_what_is_no_call_is_shown_as_text():
    for call in (b"[1", b"\xff", b"[]", b"7", b'{"tool": [1], "arguments": [1]}', b"[" * 100_000):
        assert view(a_call(call)).tool
