"""`picohook approvals`: in a terminal, as a list, as JSON, and for programs that answer."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import urllib.request
from contextlib import contextmanager

import pytest
from program import PATIENCE, read_line
from rows import each

from picohook.ext.approvals.queue import Answer, Queue

from .conftest import a_call

LS = a_call().call
ODD = json.dumps(
    {"tool": "b\u0430sh", "arguments": {"command": "rm \x1b[2J \u202e"}, "meta": {"AgentID": "coder"}},
    ensure_ascii=False,
).encode()
EDIT = json.dumps(
    {"tool": "edit", "arguments": {"file_path": "a.py", "old_string": "one\ntwo", "new_string": "one\n2"}}
).encode()


@pytest.fixture
def queue(project):
    made = Queue(str(project.home / ".local/state/picohook/approvals"))
    yield made
    made.close()


@pytest.fixture
def put(queue):
    """Adds calls of a host that lives."""
    host = Queue(queue.directory, present=True)

    def put(*calls, lasts=60.0, **about):
        made = [a_call(call, lasts, hook="person", program="agent", pid=7, **about) for call in calls]
        for one in made:
            host.exchange([one])
        return [one.id for one in made]

    yield put
    host.close()


class Terminal:
    """A person at a terminal."""

    def __init__(self, ours):
        self.ours, self.seen = ours, ""

    def sees(self, text):
        """Wait for this text. Returns what came before it."""
        while text not in self.seen:
            assert select.select([self.ours], [], [], PATIENCE)[0], f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self.ours, 65536).decode()
        before, _, self.seen = self.seen.partition(text)
        return re.sub(r"\x1b\[[\d;]*m", "", before)  # without colours

    def types(self, text):
        os.write(self.ours, text.encode())


@contextmanager
def terminal(project, *options):
    ours, theirs = pty.openpty()
    with project.start("approvals", *options, stdin=theirs, stdout=theirs, stderr=theirs, starts=True) as process:
        os.close(theirs)
        yield Terminal(ours)
        assert process.wait(PATIENCE) == 0
    os.close(ours)


def test_a_person_works_through_the_list(project, queue, put):
    calls = put(LS, ODD, EDIT, LS)
    with terminal(project) as person:
        first = person.sees("> ")
        assert re.search(r"command:\s+ls\s", first)
        assert "by hook person, which asks about every call" in first
        assert "3 more in the queue" in first
        person.types("y\n")
        second = person.sees("> ")
        assert r"b\u0430sh" in second
        assert r"rm \x1b[2J \u202e" in second
        assert not {"\x1b", "\u202e"} & {*second}
        assert "coder in agent (pid 7)" in second
        person.types("n use git mv\n")
        third = person.sees("> ")
        assert re.search(r"- two\s+\+ 2", third)
        person.types("perhaps\n")
        person.sees("not understood: perhaps")
        person.sees("> ")
        person.types("s\n")
        person.sees("> ")
        person.types("n\n")
        person.sees("no other call waits")
    said = [queue.find(call).answer for call in calls]
    assert [one and (one.yes, one.reason) for one in said] == [(True, ""), (False, "use git mv"), None, (False, "")]
    assert re.fullmatch(r"the terminal \d+, by \S+", said[0].by)


def test_a_yes_is_for_the_later_calls_that_were_offered(project, queue, put):
    [call] = put(LS, grants=True)
    with terminal(project) as person:
        person.sees('y 1: yes, for this project: bash: command = "ls"')
        person.sees("> ")
        person.types("y 9\n")
        person.sees("not understood: y 9")
        person.sees("> ")
        person.types("y 1\n")
        person.sees("no call waits")
    assert queue.find(call).answer.grant == {"for": "project"}


@each(
    "mistake",
    [
        (("--yes", "--grant", "session"), "is a JSON object"),
        (("--yes", "--grant", '{"for": "ever"}'), "for: Input should be 'session', 'agent' or 'project'"),
        (("--no", "--grant", '{"for": "session"}'), "with a reason or without"),
        (("--yes", "--grant", '{"for": "session"}'), "keeps no grants: its configuration has no [grants]"),
    ],
)
def test_a_grant_that_is_none_is_refused_and_the_call_still_waits(project, queue, put, mistake):
    options, why = mistake
    [call] = put(LS)
    done = project("approvals", "answer", call, *options)
    assert (done.code != 0, why in done.err) == (True, True), done.err
    assert queue.find(call).answer is None


def test_a_grant_that_could_never_answer_is_refused_with_the_reason_and_the_call_still_waits(project, queue, put):
    push = json.dumps({"tool": "bash", "arguments": {"command": "cd x && git push"}}).encode()
    [call] = put(push, grants=True, directory="/")
    for scope, why in (("project", "leads git to other files than those of its directory"), ("agent", "has no agent")):
        done = project("approvals", "answer", call, "--yes", "--grant", json.dumps({"for": scope}))
        assert (done.code, why in done.err) == (1, True)
    assert queue.find(call).answer is None


def test_the_first_answer_to_a_call_counts_and_the_person_is_told_of_it(project, queue, put):
    first, second = put(LS, LS)
    with terminal(project) as person:
        person.sees(f"{first}  bash")
        person.sees("> ")
        queue.answer(first, Answer(False, "", "the page"))
        person.types("y\n")
        person.sees(f"{first} was answered already: no, by the page")
        person.sees(f"{second}  bash")
        person.sees("> ")
        person.types("q\n")
    assert queue.find(second).answer is None


def test_what_was_typed_before_the_question_is_no_answer(project, queue, put):
    [call] = put(LS)
    with terminal(project) as person:
        person.types("y\n")
        person.sees("> ")
        assert queue.find(call).answer is None
        person.types("n\n")
        person.sees("no call waits")
    assert queue.find(call).answer.yes is False


def test_with_watch_the_bell_rings_when_a_call_comes(project, queue, put):
    with terminal(project, "--watch") as person:
        person.sees("no call waits")
        [call] = put(LS)
        person.sees("\a")
        person.sees("> ")
        person.types("y\n")
        person.sees("no call waits")
        put(LS)
        person.sees("> ")
        person.types("q\n")
    assert queue.find(call).answer.yes is True


def test_elsewhere_it_has_a_line_of_json_for_each_call(project, put):
    assert project("approvals").out == "no call waits\n"
    calls = put(ODD, LS)
    lines = project("approvals").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == calls


def test_as_json_it_has_the_call_and_where_it_comes_from(project, put):
    [call] = put(ODD)
    [one] = project("approvals", "--json").lines
    assert (one["id"], one["state"], one["hook"], one["pid"]) == (call, "waiting", "person", 7)
    assert one["call"] == json.loads(ODD)


def test_a_program_can_watch_and_answer(project, queue, put):
    with project.start("approvals", "--watch", "--json") as watching:
        first, second = put(LS, LS)
        assert [json.loads(read_line(watching.stdout))["id"] for _ in range(2)] == [first, second]
        yes = project("approvals", "answer", first, "--yes")
        assert (yes.code, yes.out) == (0, f"{first}: yes\n")
        ended = json.loads(read_line(watching.stdout))
        assert (ended["id"], ended["state"], ended["answer"]["yes"]) == (first, "answered", True)
    no = project("approvals", "answer", second, "--no", "use git mv")
    assert no.out == f"{second}: no\n"
    assert (queue.find(first).answer.yes, queue.find(second).answer.reason) == (True, "use git mv")
    again = project("approvals", "answer", first, "--yes")
    assert (again.code, again.err[:50]) == (1, f"Error: {first} was answered already: yes, by th")


def test_an_answer_without_a_side_is_refused(project, put):
    [call] = put(LS)
    for arguments in ([], ["--yes", "x"]):
        done = project("approvals", "answer", call, *arguments)
        assert done.code == 2
        assert "say --yes, with a grant or without, or --no" in done.err


def test_one_call_is_shown_whole(project, put):
    large = json.dumps({"tool": "write", "arguments": {"content": "x" * 100_000 + "END"}}).encode()
    [call] = put(large)
    assert "END" not in project("approvals").out
    out = project("approvals", "show", call).out
    assert "too large to be shown here: 100" in out
    assert 'END"}}' in out
    assert project("approvals", "show", call, "--json").json["call"] == json.loads(large)
    unknown = project("approvals", "show", "x")
    assert (unknown.code, unknown.err) == (1, "Error: no call x is in the queue: see picohook approvals\n")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--bind", "192.0.2.1"], "a page for other machines needs --certificate and --key, for TLS"),
        (["--bind", "192.0.2.1", "--certificate", "c"], "a page for other machines needs --certificate and --key"),
        (["--bind", "0.0.0.0", "--certificate", "c", "--key", "k"], "others reach the page, not 0.0.0.0"),
        (["--bind", "no-such.invalid"], "the page cannot be served at no-such.invalid: "),
        (
            ["--certificate", "missing.pem", "--key", "missing.pem"],
            "the page cannot be served at 127.0.0.1: No such file",
        ),
        (["--bind", "192.0.2.1", "--certificate", "c", "--key", "k"], "the page cannot be served at 192.0.2.1: "),
    ],
)
def test_a_page_that_cannot_be_served_safely_is_not(project, options, why):
    done = project("approvals", "--web", *options)
    assert done.code in {1, 2}
    assert done.out == ""
    assert why in " ".join(done.err.split())


def test_a_page_with_a_certificate_is_encrypted_and_known_to_hosts_by_its_name(project, queue):
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = project.path / "c.pem"
    if shutil.which("openssl") is None:
        pytest.skip("apt-get install openssl")
    subprocess.run([*new, *subject, "-keyout", made, "-out", project.path / "c.crt"], check=True, capture_output=True)
    options = ["--web", "--certificate", "c.crt", "--key", "c.pem", "--bind", "localhost"]
    with project.start("approvals", *options, "--port", "0") as serving:
        told = read_line(serving.stdout)
        assert re.fullmatch(r"https://localhost:\d+/#\S{32}\n", told)
        assert queue.link("a").startswith(told.partition("#")[0] + "call/a?key=")
        serving.terminate()
        assert serving.wait(PATIENCE) == 128 + signal.SIGTERM
    assert queue.link("a") == ""


def test_an_interrupted_page_ends_quietly(project, queue):
    with project.start("approvals", "--web") as serving:
        address = read_line(serving.stdout).strip()
        place = address.partition("#")[0]
        with urllib.request.urlopen(place, timeout=PATIENCE) as page:
            assert page.status == 200
        serving.send_signal(signal.SIGINT)
        assert serving.wait(PATIENCE) == 130
        assert "Traceback" not in serving.stderr.read()
