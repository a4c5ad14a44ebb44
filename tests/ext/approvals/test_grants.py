"""Grants: an approver's yes for later calls. Everything that is not exactly one of them is asked about."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from rows import each

from picohook import Approve, FunctionHook, HookSpec, Host, Meta, PicohookError, ToolCall
from picohook.ext.approvals.grants import Facts, Grant, offers
from picohook.ext.approvals.grants_part import GrantsPart
from picohook.ext.approvals.grants_store import MOST_ALIKE, GrantStore
from picohook.ext.approvals.world import path_at_once, resolved_for_all, state_of_git

from .conftest import Log

pytestmark = pytest.mark.anyio
SESSION = Meta(session_key="s1", agent_id="main")


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", *(one for one in os.environ if one.startswith("GIT_"))):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")


def call(tool="edit", meta=SESSION, context=None, **arguments):
    return ToolCall(tool=tool, arguments=arguments, meta=meta, context=context)


class Person:
    """An approver that says yes with a grant, and counts how often it is asked."""

    def __init__(self, grant=None, name="person", **settings):
        self.asked = 0
        self.grant = grant
        self.hook = FunctionHook(name, {"before_tool": lambda _: None, "approve_tool": self._approve}, **settings)

    def _approve(self, _):
        self.asked += 1
        return True if self.grant is None else Approve(grant=self.grant)


async def asked_again(person, first, second, *more):
    """Whether the person is asked about the second call, after a yes with the grant to the first one."""
    async with Host([person.hook, *more], grants=True) as host:
        assert (await host.approve_tool(first)).approved
        before = person.asked
        assert (await host.approve_tool(second)).approved
        return person.asked > before


async def test_a_later_call_with_the_same_arguments_is_approved_and_the_trail_says_by_which_grant():
    person = Person({"for": "session"})
    async with Host([person.hook], grants=True) as host:
        await host.approve_tool(call(path="a", text="x"))
        outcome = await host.approve_tool(call(text="x", path="a"))
        (grant,) = GrantStore().all()
        assert host.status().parts["grants"] == {"uses": 1}
    assert (outcome.approved, person.asked) == (True, 1)
    entry = outcome.trail[0]
    assert (entry.hook, entry.reason.startswith(f"grant {grant.id} of ")) == ("grants", True)
    assert entry.reason.endswith(", by person: its program")


def offered(of):
    return offers(of.wire(), {})


async def test_the_order_of_names_and_the_size_of_numbers_make_no_other_call():
    deep = {"one": [{"a": 2**70, "b": 1}], "two": 1.5}
    turned = {"two": 1.5, "one": [{"b": 1, "a": 2**70}]}
    assert not await asked_again(Person({"for": "session"}), call(deep=deep), call(deep=turned))
    for other in (deep | {"two": 1}, {"one": [{"a": float(2**70), "b": 1}], "two": 1.5}):
        assert await asked_again(Person({"for": "session"}), call(deep=deep), call(deep=other))


FIRST = {"path": "src/a.py", "text": "x"}


@each(
    "second",
    [
        call(**FIRST | {"text": "y"}),
        call(**FIRST, more=1),
        call(path="src/a.py"),
        call("write", **FIRST),
        call(**FIRST, meta=Meta(session_key="s2")),
        call(**FIRST, meta=Meta()),
        call(**FIRST | {"text": 1}),
    ],
)
async def test_any_other_call_is_asked_about(second):
    assert await asked_again(Person({"for": "session"}), call(**FIRST), second)


@each(
    "scope",
    [
        ("session", Meta(session_key="s1", agent_id="other"), False),
        ("agent", Meta(session_key="s2", agent_id="main"), False),
        ("agent", Meta(session_key="s1", agent_id="other"), True),
        ("project", Meta(), False),
    ],
)
async def test_a_grant_holds_for_its_session_agent_or_project(scope):
    name, meta, asked = scope
    assert await asked_again(Person({"for": name}), call(**FIRST), call(**FIRST, meta=meta)) is asked


async def test_a_grant_for_a_project_does_not_hold_in_another_directory(tmp_path, monkeypatch):
    person = Person({"for": "project"})
    await asked_again(person, call(**FIRST), call(**FIRST))
    monkeypatch.chdir(tmp_path)
    assert await asked_again(person, call(**FIRST), call(**FIRST)) is False
    assert person.asked == 2


UNDER = {"for": "session", "like": {"path": {"under": "src"}, "text": "anything"}}


@each(
    "path",
    [
        ("src/b/c.py", False),
        ("src/../src/d", False),
        ("src", True),
        ("src2/x", True),
        ("src/../x", True),
        ("/etc/x", True),
        ("~/src/x", True),
        ("src/link/x", True),
        ("", True),
    ],
)
async def test_a_grant_for_a_directory_is_for_what_is_really_in_it(path):
    name, asked = path
    os.makedirs("src", exist_ok=True)
    if not os.path.lexists("src/link"):
        os.symlink("/etc", "src/link")
    assert await asked_again(Person(UNDER), call(**FIRST), call(path=name, text="y")) is asked


async def test_a_directory_that_becomes_a_link_elsewhere_is_asked_about_at_the_next_call(tmp_path):
    person, inside, there = Person(UNDER), call(path="src/b/c.py", text="y"), tmp_path / "there"
    os.makedirs("src/b")
    there.mkdir()
    async with Host([person.hook], grants=True) as host:
        for one in (call(**FIRST), inside, inside):
            await host.approve_tool(one)
        assert person.asked == 1
        os.rename("src/b", "src/old")
        os.symlink(there, "src/b")
        await host.approve_tool(inside)
    assert person.asked == 2


@pytest.mark.skipif(not path_at_once("/", "/"), reason="needs Linux 5.12")
async def test_a_path_with_a_link_is_looked_at_in_a_thread_and_any_other_is_known_at_once(tmp_path):
    os.makedirs("src/real")
    os.symlink("real", "src/link")
    part = GrantsPart()
    person = Person(UNDER)
    async with Host([person.hook], parts=[part]) as host:
        for path in ("src/a.py", "src/real/a", "src/link/a", "src/real/a", "src/link/a"):
            assert (await host.approve_tool(call(path=path, text="x"))).approved
        assert isinstance(part.answer(call(path="src/real/a", text="z"), [person.hook]), Approve)
        later = part.answer(call(path="src/link/a", text="z"), [person.hook])
        assert isinstance(await later, Approve)
    assert person.asked == 1


@each("seed", range(5))
def test_what_is_known_of_a_path_at_once_is_what_its_links_say(seed, tmp_path):
    some, names = random.Random(seed), ["a", "b", "c", "link"]
    places = [str(tmp_path)]
    for _ in range(40):
        path = os.path.join(some.choice(places), some.choice(names))
        if not os.path.lexists(path) and some.random() < 0.6:
            os.mkdir(path)
            places.append(path)
        elif not os.path.lexists(path):
            os.symlink(some.choice(["/etc", "..", ".", "../b", "nowhere", "link", *places]), path)
    for _ in range(2000):
        cwd = os.path.join(some.choice(places), some.choice(["", "link/../b"]))
        parts = some.choices([*names, "..", ".", "", "new"], k=some.randint(1, 5))
        path = os.path.join(*some.choice([[cwd], [""]]), "/".join(parts))
        assert path_at_once(path, cwd) in {"", resolved_for_all(path, cwd)}


async def test_a_relative_path_counts_from_the_directory_of_the_call(tmp_path):
    inside = call(**FIRST, context={"cwd": str(tmp_path)})
    assert await asked_again(Person(UNDER), call(**FIRST), inside)


@each("path", [1, None, ["src/a"], {"under": "src"}])
async def test_what_is_no_path_is_in_no_directory(path):
    assert await asked_again(Person(UNDER), call(**FIRST), call(path=path, text="y"))


async def test_an_argument_that_may_be_anything_has_to_be_there():
    grant = {"for": "session", "like": {"text": "anything"}}
    assert await asked_again(Person(grant), call(**FIRST), call(path="src/a.py"))
    assert not await asked_again(Person(grant), call(**FIRST), call(path="src/a.py", text=["y"]))


@each(
    "grant",
    [
        {},
        {"for": "everything"},
        {"for": "session", "unknown": 1},
        {"for": "session", "times": 0},
        {"for": "session", "times": True},
        {"for": "session", "seconds": -1},
        {"for": "session", "seconds": float("inf")},
        {"for": "session", "like": {"path": {"under": "elsewhere"}}},
        {"for": "session", "like": {"path": {"under": ""}}},
        {"for": "session", "like": {"other": "anything"}},
        {"for": "session", "like": {"path": {"matches": "*"}}},
        {"for": "session", "like": {"path": {"under": "src", "starts": ["x"]}}},
        {"for": "session", "like": "anything"},
        {"for": "session", "tool": "bash"},
    ],
)
async def test_what_is_no_grant_for_the_call_is_a_yes_for_this_call_alone(grant):
    assert await asked_again(Person(grant), call(**FIRST), call(**FIRST))
    assert GrantStore().all() == []


async def test_without_the_table_a_yes_is_for_one_call():
    person = Person({"for": "session"})
    async with Host([person.hook]) as host:
        for _ in range(2):
            assert (await host.approve_tool(call(**FIRST))).approved
    assert person.asked == 2


async def test_a_grant_of_one_approver_does_not_answer_for_another():
    other = Person(name="other")
    assert await asked_again(Person({"for": "session"}), call(**FIRST), call(**FIRST), other.hook)
    assert other.asked == 2


async def test_grants_of_all_approvers_answer_for_all():
    other = Person({"for": "project"}, name="other")
    assert not await asked_again(Person({"for": "session"}), call(**FIRST), call(**FIRST), other.hook)
    assert other.asked == 1


async def test_no_grant_answers_for_a_guard():
    guard = Person({"for": "session"}, name="guard", guard=True)
    assert not await asked_again(Person({"for": "session"}), call(**FIRST), call(**FIRST), guard.hook)
    assert guard.asked == 2


async def test_a_grant_beside_a_denial_of_another_approver_is_not_kept():
    no = FunctionHook("no", {"approve_tool": lambda _: False})
    async with Host([Person({"for": "session"}).hook, no], grants=True) as host:
        assert not (await host.approve_tool(call(**FIRST))).approved
    assert GrantStore().all() == []


async def test_an_approver_of_a_session_is_always_asked():
    person = Person({"for": "project"})
    async with Host([], grants=True) as host:
        for _ in range(2):
            async with host.session("s1", hooks=[person.hook]) as session, session.turn("hello") as turn:
                await turn.decide(call(**FIRST))
            person = Person({"for": "project"})
    assert GrantStore().all() == []


async def test_a_grant_of_a_function_ends_with_its_host():
    person = Person({"for": "project"})
    assert not await asked_again(person, call(**FIRST), call(**FIRST))
    assert not await asked_again(person, call(**FIRST), call(**FIRST))
    assert person.asked == 2


@each("path", ["link/../../../out", "~/x", "file:///etc/passwd", " /etc/passwd", "a\0", "x/" * 5_000])
async def test_a_path_that_tools_understand_in_different_ways_is_in_no_directory(path):
    os.makedirs("a/b/c/d", exist_ok=True)
    if not os.path.lexists("link"):
        os.symlink("a/b/c/d", "link")
    grant = {"for": "session", "like": {"path": {"under": ".." if path == "~/x" else "."}}}
    assert await asked_again(Person(grant), call(path="x"), call(path=path)), path


async def test_a_grant_is_for_calls_in_the_same_directory():
    first, second = (call("bash", context={"cwd": cwd}, command="rm -r build") for cwd in ("/work/a", "/work/b"))
    assert not await asked_again(Person({"for": "session"}), first, first)
    assert await asked_again(Person({"for": "session"}), first, second)


# Counted grants.


async def test_a_counted_grant_is_for_so_many_calls():
    person = Person({"for": "session", "times": 3})
    async with Host([person.hook], grants=True) as host:
        for _ in range(8):
            assert (await host.approve_tool(call(**FIRST))).approved
    assert person.asked == 2  # each yes is followed by three calls


async def test_a_counted_grant_for_calls_like_one_is_for_so_many_of_them():
    person = Person({**UNDER, "times": 2})
    async with Host([person.hook], grants=True) as host:
        for path in ("src/a.py", "src/b.py", "src/c.py"):
            assert (await host.approve_tool(call(path=path, text=path))).approved
        assert person.asked == 1
        await host.approve_tool(call(path="src/d.py", text="d"))
    assert person.asked == 2


async def test_hosts_that_use_one_counted_grant_at_the_same_time_use_it_no_more_often_than_it_is_for(config):
    path = config("approver.py", '{"approved": True, "grant": {"for": "project", "times": 5}}')
    async with Host.from_config(path) as one, Host.from_config(path) as two:
        await one.approve_tool(call(**FIRST))
        (config.directory / "answer").write_text("no")
        outcomes = []

        async def ask(host):
            outcomes.append(await host.approve_tool(call(**FIRST)))

        async with anyio.create_task_group() as tasks:
            for host in [one, two] * 10:
                tasks.start_soon(ask, host)
    assert [one.approved for one in outcomes].count(True) == 5
    late = [one for one in outcomes if not one.approved]
    assert [entry.hook for one in late for entry in one.trail] == ["person"] * 15
    assert GrantStore().all() == []


def test_counted_grants_are_used_together_or_not_at_all():
    store = GrantStore()
    for name, left in (("one", 2), ("two", 1)):
        store.give(Grant(name, "person", "session", "s", "edit", {}, {}, 0.0, 9e9, "x", left), b"key", "start")
    assert store.use(["one", "two"])
    assert not store.use(["one", "two"])
    assert [(grant.id, grant.left) for grant in store.all()] == [("one", 1)]
    store.close()


def test_four_threads_share_a_store_and_use_a_counted_grant_no_more_often_than_it_is_for():
    store, calls, most = GrantStore(), 400, 100
    grant = Grant("one", "person", "session", "s", "edit", {}, {}, 0.0, 9e9, "x", most)
    store.give(grant, b"key", "start")

    def work(number):
        used = 0
        for turn in range(calls):
            used += store.use(["one"])
            store.give(dataclasses.replace(grant, id=f"{number} {turn}", left=None), b"other", "start")
            assert store.version() > 0
            assert len(store.find(b"key")) <= len(store.forms(["start"])) == 1
        return used

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(work, range(4))) == most
    assert len(store.all()) == 4 * calls
    store.close()


def test_a_store_that_is_closed_while_threads_use_it_says_so_to_them():
    store, began = GrantStore(), threading.Barrier(5)

    def work(_):
        began.wait()
        while True:
            store.all()

    def told(number):
        with pytest.raises(PicohookError, match=r"grants\.db: .*closed"):
            work(number)

    with ThreadPoolExecutor(4) as threads:
        ended = threads.map(told, range(4))
        began.wait()
        store.close()
        assert [*ended] == [None] * 4


# Other programs, and the configuration.

APPROVER = """\
import json, os, sys
for line in sys.stdin:
    question = json.loads(line)
    answer = {answer} if question["method"] == "hook.approve_tool" else {{"ok": True, "name": "x"}}
    if question["method"] == "hook.approve_tool" and os.path.exists("answer"):
        answer = {{"approved": False}}
    if question["method"] == "hook.approve_tool" and os.path.exists("changes itself"):
        open(__file__, "a").write("# changed")
    if "id" in question:
        print(json.dumps({{"jsonrpc": "2.0", "id": question["id"], "result": answer}}), flush=True)
"""
CONFIG = """\
[grants]
[hooks.person]
command = ["{python}", "approver.py"]
stages = ["approve_tool"]
"""


@pytest.fixture
def config(tmp_path):
    """`config(program, answer)` writes a configuration whose approver answers so, until there is a file `answer` beside it."""
    directory = tmp_path / "hooks"
    directory.mkdir()

    def write(program="approver.py", answer='{"approved": True, "grant": {"for": "project"}}'):
        (directory / program).write_text(APPROVER.format(answer=answer))
        path = directory / "picohook.toml"
        path.write_text(CONFIG.format(python=sys.executable))
        return path

    write.directory = directory
    return write


async def granted_then(path, change):
    """Whether a call is approved after a yes with a grant, a change, and an approver that says no from then on."""
    async with Host.from_config(path) as host:
        assert (await host.approve_tool(call(**FIRST))).approved
    (path.parent / "answer").write_text("no")
    change()
    async with Host.from_config(path) as host:
        return (await host.approve_tool(call(**FIRST))).approved


async def test_a_grant_outlives_its_host(config):
    assert await granted_then(config(), lambda: None)


async def test_a_grant_does_not_outlive_a_change_of_the_configuration(config):
    path = config()
    assert not await granted_then(path, lambda: path.write_text(path.read_text() + "# reviewed\n"))


async def test_a_grant_does_not_outlive_a_change_of_the_hooks_program(config):
    path = config()
    program = path.parent / "approver.py"
    assert not await granted_then(path, lambda: program.write_text(program.read_text() + "# reviewed\n"))


async def test_a_grant_does_not_outlive_a_reload_of_another_configuration(config):
    path = config()
    async with Host.from_config(path) as host:
        assert (await host.approve_tool(call(**FIRST))).approved
        (path.parent / "answer").write_text("no")
        assert (await host.approve_tool(call(**FIRST))).approved
        path.write_text(path.read_text().replace("[grants]", ""))
        await host.reload()
        assert not (await host.approve_tool(call(**FIRST))).approved


@each("name", ["approver.py", "picohook.toml"])
async def test_a_grant_does_not_answer_the_next_call_after_a_change_however_soon_it_comes(config, name):
    path = config()
    async with Host.from_config(path) as host:
        (path.parent / "answer").unlink(missing_ok=True)
        assert (await host.approve_tool(call(**FIRST))).approved
        (path.parent / "answer").write_text("no")
        assert (await host.approve_tool(call(**FIRST))).approved
        with open(path.parent / name, "a") as file:
            file.write("# reviewed\n")
        if name == path.name:
            await host.reload()
        assert not (await host.approve_tool(call(**FIRST))).approved


async def test_a_grant_ends_with_a_change_of_the_program_while_it_gives_another_grant(config):
    path = config()
    async with Host.from_config(path) as host:
        for _ in range(2):
            assert (await host.approve_tool(call(**FIRST))).approved
        (path.parent / "changes itself").touch()
        assert (await host.approve_tool(call(path="b"))).approved
        (path.parent / "answer").write_text("no")
        assert (await host.approve_tool(call(path="b"))).approved
        assert not (await host.approve_tool(call(**FIRST))).approved


async def test_a_revoked_grant_is_not_used_again():
    person = Person({"for": "session"})
    async with Host([person.hook], grants=True) as host:
        await host.approve_tool(call(**FIRST))
        await host.approve_tool(call(**FIRST))
        (grant,) = GrantStore().all()
        subprocess.run(
            [sys.executable, "-m", "picohook", "grants", "revoke", grant.id], check=True, capture_output=True
        )
        await host.approve_tool(call(**FIRST))
    assert person.asked == 2


async def test_what_looks_like_something_else_is_an_escape_in_the_list_of_grants():
    person = Person({"for": "session"})
    async with Host([person.hook], grants=True) as host:
        await host.approve_tool(call(path="p\u0430ypal"))
        await host.approve_tool(call(path="p\u0430ypal"))
        (grant,) = GrantStore().all()
        for words in ((), ("show", grant.id)):
            command = [sys.executable, "-m", "picohook", "grants", *words]
            out = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
            assert r"p\u0430ypal" in out


async def test_a_host_uses_what_an_approver_granted_to_another_host(config):
    path = config()
    async with Host.from_config(path) as one, Host.from_config(path) as two:
        assert (await one.approve_tool(call(**FIRST))).approved
        (path.parent / "answer").write_text("no")
        await one.approve_tool(call(**FIRST))
        assert (await two.approve_tool(call(**FIRST))).approved


async def test_a_grant_that_is_over_is_not_used(monkeypatch):
    person = Person({"for": "session", "seconds": 60})
    async with Host([person.hook], grants=True) as host:
        await host.approve_tool(call(**FIRST))
        later = time.time() + 61
        monkeypatch.setattr(time, "time", lambda: later)
        await host.approve_tool(call(**FIRST))
    assert person.asked == 2


async def test_a_grant_is_not_used_when_the_clock_was_set_back(monkeypatch):
    person = Person({"for": "session", "seconds": 60})
    async with Host([person.hook], grants=True) as host:
        await host.approve_tool(call(**FIRST))
        await host.approve_tool(call(**FIRST))
        assert person.asked == 1
        earlier = time.time() - 3600
        monkeypatch.setattr(time, "time", lambda: earlier)
        await host.approve_tool(call(**FIRST))
    assert person.asked == 2


async def test_grants_end_when_a_person_removes_their_file(tmp_path):
    person = Person({"for": "session"})
    async with Host([person.hook], grants=True) as host:
        await host.approve_tool(call(**FIRST))
        await host.approve_tool(call(**FIRST))
        assert person.asked == 1
        for file in (tmp_path / "state" / "picohook" / "approvals").glob("grants.db*"):
            file.unlink()
        outcome = await host.approve_tool(call(**FIRST))
        GrantStore().close()
        await host.approve_tool(call(**FIRST))
    assert (person.asked, outcome.approved) == (3, True)
    assert "grants.db: No such file" in outcome.trail[0].error


async def test_a_file_that_cannot_be_used_stops_the_start_of_the_host(tmp_path):
    directory = tmp_path / "state" / "picohook" / "approvals"
    directory.mkdir(parents=True, mode=0o700)
    (directory / "grants.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match=r"grants\.db: is not a file of approvals"):
        async with Host([], grants=True):
            pass


# Git.


async def test_a_grant_for_a_git_command_ends_with_the_configuration_of_git():
    os.mkdir(".git")
    with open(".git/config", "w") as file:
        file.write('[remote "origin"]\n\turl = good\n')
    push = call("bash", command="git push origin feature")
    person = Person({"for": "session"})
    async with Host([person.hook], grants=True) as host:
        await host.approve_tool(push)
        await host.approve_tool(push)
        assert person.asked == 1
        with open(".git/config", "a") as file:
            file.write("\tpushurl = evil\n")
        await host.approve_tool(push)
    assert person.asked == 2


@each(
    "name", ["~/.gitconfig", "~/.config/git/config", ".git/config", ".git/HEAD", "~/included", ".git/config.worktree"]
)
def test_each_file_of_gits_configuration_counts(name):
    os.makedirs(".git", exist_ok=True)
    os.makedirs(os.path.expanduser("~/.config/git"), exist_ok=True)
    with open(os.path.expanduser("~/.gitconfig"), "w") as file:
        file.write("[include]\n\tpath = ~/included\n")
    before = state_of_git(os.path.join(os.getcwd(), "missing", "below"))
    with open(os.path.expanduser(name), "a") as file:
        file.write("[alias]\n\tpush = !evil\n")
    assert state_of_git(os.path.join(os.getcwd(), "missing", "below")) != before


@each("command", ["cd ../x && git push", "git -C ../x push", "git --git-dir=../x push", "GIT_DIR=../x git push"])
async def test_a_grant_for_git_in_another_directory_could_never_answer_so_it_is_not_kept_and_the_log_says_why(command):
    push, log = call("bash", command=command), Log()
    person = Person({"for": "session"})
    async with Host([person.hook], grants=True, logger=log) as host:
        for _ in range(2):
            assert (await host.approve_tool(push)).approved
    assert (person.asked, GrantStore().all()) == (2, [])
    assert {why for event, why in log.warnings if event == "a grant was not kept"} == {
        "PicohookError: the call leads git to other files than those of its directory: no grant can answer"
    }
    assert offered(push) == []


async def test_a_call_of_git_that_is_led_elsewhere_is_asked_about_and_the_trail_says_why_no_grant_answers():
    person = Person({"for": "session"})
    async with Host([person.hook], grants=True) as host:
        await host.approve_tool(call("bash", command="ls"))
        outcome = await host.approve_tool(call("bash", command="git -C ../x push"))
    assert (person.asked, outcome.approved) == (2, True)
    assert "leads git to other files than those of its directory" in outcome.trail[0].error


def told_state():
    """The state of git; None if it cannot be told, so that no grant answers."""
    with contextlib.suppress(PicohookError):
        return state_of_git(os.getcwd())
    return None


@each(
    "line",
    [
        "[include] path = ~/included",
        "[include]\n\tpath = ~/included # ours",
        "[include]\n\tpath = ~/inc\\\n luded",
        '[includeIf "gitdir:/"]\n\tPATH="~/included"',
        "[include]\n\tpath = ~/a0",
    ],
)
def test_a_file_that_gits_configuration_includes_in_any_way_counts(line):
    os.makedirs(os.path.expanduser("~"), exist_ok=True)
    for at in range(8):
        with open(os.path.expanduser(f"~/a{at}"), "w") as file:
            file.write(f"[include]\n\tpath = ~/{f'a{at + 1}' if at < 7 else 'included'}\n")
    with open(os.path.expanduser("~/.gitconfig"), "w") as file:
        file.write(f"{line}\n")
    before = told_state()
    with open(os.path.expanduser("~/included"), "a") as file:
        file.write("[alias]\n\tpush = !evil\n")
    assert told_state() != before or told_state() is None


def test_a_directory_that_became_a_repository_without_work_tree_counts():
    os.makedirs("below")
    before = state_of_git(os.path.abspath("below"))
    for name in ("HEAD", "config"):
        with open(f"below/{name}", "w") as file:
            file.write("[remote]\n")
    assert state_of_git(os.path.abspath("below")) != before


def test_the_state_of_git_cannot_be_told_if_the_environment_names_its_configuration(monkeypatch):
    assert state_of_git(os.getcwd()) == state_of_git(os.getcwd())
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "elsewhere")
    with pytest.raises(PicohookError, match="the environment leads git to other files"):
        state_of_git(os.getcwd())


def test_the_configuration_of_a_further_work_tree_is_that_of_its_repository(tmp_path):
    os.makedirs("main/.git/worktrees/other")
    os.makedirs("other")
    with open("other/.git", "w") as file:
        file.write(f"gitdir: {os.getcwd()}/main/.git/worktrees/other\n")
    with open("main/.git/worktrees/other/commondir", "w") as file:
        file.write("../..\n")
    before = state_of_git(os.path.abspath("other"))
    with open("main/.git/config", "w") as file:
        file.write("[alias]\n\tpush = !evil\n")
    assert state_of_git(os.path.abspath("other")) != before


# Commands, as guards read them.

PUSH = {"for": "session", "like": {"command": {"starts": ["git", "push", "origin", "feature"]}}}


@each(
    "command",
    [
        ("git push origin feature", False),
        ("git  push 'origin' \"feature\"", False),
        ("git push origin feature --force", True),
        ("git push origin feature -f", True),
        ("git push origin feature +main", True),
        ("git push --force origin feature", True),
        ("git push origin main", True),
        ("git push origin feature; rm -rf x", True),
        ("git push origin feature && rm -rf x", True),
        ("git push origin feature | sh", True),
        ("git push origin feature > /etc/passwd", True),
        ("git push origin $(echo feature)", True),
        ("git push origin feature $X", True),
        ("GIT_SSH_COMMAND=evil git push origin feature", True),
        ("git -c remote.origin.pushurl=evil push origin feature", True),
        ("git() { rm -rf x; }; git push origin feature", True),
        ("alias git=evil\ngit push origin feature", True),
        ("sudo git push origin feature", True),
        ("./git push origin feature", True),
        ("git push origin feature\nrm -rf x", True),
        ("git push origin featur?", True),
        ("git push origin 'feature", True),
        ("PATH=/evil; git push origin feature", True),
        ("HOME=/evil\ngit push origin feature", True),
        ("for PATH in /evil; do git push origin feature; done", True),
        ("case a in a) git push origin feature;; esac", True),
        ("((PATH=1)); git push origin feature", True),
        ("(git push origin feature)", True),
        ("git push origin feature &", True),
        ("# it's\ngit push origin feature", True),
        ("cd /evil && git push origin feature", True),
    ],
)
async def test_a_grant_for_the_first_words_of_a_command_is_for_that_command_alone(command):
    text, asked = command
    first, second = (call("bash", command=one) for one in ("git push origin feature", text))
    assert await asked_again(Person(PUSH), first, second) is asked, text


async def test_further_words_are_free_as_long_as_guards_let_the_call_pass():
    grant = {"for": "session", "like": {"command": {"starts": ["npm", "run"]}}}
    first = call("bash", command="npm run test")
    assert not await asked_again(Person(grant), first, call("bash", command="npm run lint"))
    grant = {"for": "session", "like": {"command": {"starts": ["rm"]}}}
    first = call("bash", command="rm build/a.o")
    assert not await asked_again(Person(grant), first, call("bash", command="rm build/b.o"))
    assert await asked_again(Person(grant), first, call("bash", command="rm /etc/passwd"))


async def test_guards_judge_further_words_of_a_command_of_a_tool_that_they_do_not_know():
    grant = {"for": "session", "like": {"line": {"starts": ["rm"]}}}
    first = call("runner", line="rm build/a.o")
    assert not await asked_again(Person(grant), first, call("runner", line="rm build/b.o"))
    assert await asked_again(Person(grant), first, call("runner", line="rm /etc/passwd"))


async def test_a_grant_whose_first_words_the_call_does_not_have_is_not_kept():
    grant = {"for": "session", "like": {"command": {"starts": ["npm", "run"]}}}
    assert await asked_again(Person(grant), *[call("bash", command="npm test; npm run x")] * 2)


# Finding.


def test_a_call_is_compared_with_few_of_the_grants_that_are_kept():
    plain = Grant("", "person", "session", "s", "edit", {}, {}, 0.0, 9e9, "x")
    names, here = ["path", "text"], Facts(call(path="/work/7/x", text=""))
    store = GrantStore()
    for number in range(2 * MOST_ALIKE):
        like = {"path": {"under": f"/work/{number}"}, "text": "anything"}
        grant = dataclasses.replace(plain, id=f"u{number}", given=float(number), like=like)
        store.give(grant, here.key("m", names), "m")
        equal = dataclasses.replace(plain, id=f"e{number}")
        store.give(equal, Facts(call(n=number)).key("m", []), "m")
    assert sorted(store.forms(["m"])) == [("m", []), ("m", names)]
    assert [grant.id for grant in store.find(Facts(call(n=8)).key("m", []))] == ["e8"]
    alike = [grant.id for grant in store.find(here.key("m", names))]
    assert alike == [f"u{number}" for number in range(2 * MOST_ALIKE - 1, MOST_ALIKE - 1, -1)]  # the latest
    store.close()


async def test_each_of_the_grants_that_differ_in_their_directory_is_for_its_own():
    person, store = Person(), GrantStore()
    async with Host([person.hook], grants=True) as host:
        for number in range(5):
            person.grant = {"for": "session", "like": {"path": {"under": f"/work/{number}"}, "text": "anything"}}
            await host.approve_tool(call(path=f"/work/{number}/x", text=""))
        assert (person.asked, len(store.all())) == (5, 5)
        for number in range(5):
            await host.approve_tool(call(path=f"/work/{number}/y", text="z"))
        assert person.asked == 5
        store.revoke([grant.id for grant in store.all() if grant.like["path"] == {"under": "/work/3"}])
        person.grant = None
        for number in range(5):
            await host.approve_tool(call(path=f"/work/{number}/y", text="z"))
        assert person.asked == 6
    store.close()


def test_what_a_person_is_offered_says_all_that_it_is_for():
    texts = [text for text, _ in offered(call(path="src/a.py", text="x\x1b[2J"))]
    assert texts == [
        f"for this {scope}: edit: {arguments}"
        for arguments in (
            'path = "src/a.py", text = "x\\u001b[2J"',
            f"path is in {os.getcwd()}/src, text is anything",
        )
        for scope in ("session", "agent", "project")
    ]


@each(
    "place",
    [
        (Meta(), ["project"]),
        (Meta(session_key="s1"), ["session", "project"]),
        (Meta(agent_id="main"), ["agent", "project"]),
    ],
)
async def test_only_a_session_and_an_agent_that_the_call_has_can_be_granted(place):
    meta, scopes = place
    mine = call(text="a", meta=meta)
    assert [grant["for"] for _, grant in offered(mine)] == scopes
    for scope in ("session", "agent", "project"):
        log, person = Log(), Person({"for": scope})
        async with Host([person.hook], grants=True, logger=log) as host:
            for _ in range(2):
                assert (await host.approve_tool(mine)).approved
        assert person.asked == (1 if scope in scopes else 2)
        assert [f"the call has no {scope}" in why for _, why in log.warnings] == ([] if scope in scopes else [True] * 2)


def test_what_a_person_is_offered_tells_words_apart():
    shown = [text for text, _ in offered(call("bash", command="rm 'a b' c"))]
    assert "for this session: bash: command is a command that starts with: rm 'a b'" in shown


@each("offer", range(6))
async def test_an_offer_is_a_grant_for_the_call(offer):
    first = call(path="src/a.py", text="x")
    _, grant = offered(first)[offer]
    assert not await asked_again(Person(grant), first, first)


async def test_a_grant_is_read_from_a_hooks_process(config):
    async with Host(
        [HookSpec(name="p", command=(sys.executable, str(config().parent / "approver.py")), stages=["approve_tool"])],
        parts=[GrantsPart()],
    ) as host:
        await host.approve_tool(call(**FIRST))
        outcome = await host.approve_tool(call(**FIRST))
    assert outcome.trail[0].hook == "grants"


async def test_the_audit_log_says_through_whom_and_when_the_yes_came(tmp_path):
    person = Person({"for": "session"})
    async with Host([person.hook], grants=True, audit=tmp_path / "audit.log") as host:
        for _ in range(2):
            await host.approve_tool(call(**FIRST))
        (grant,) = GrantStore().all()
    *_, last = (
        json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines() if "approve_tool" in line
    )
    assert [entry["hook"] for entry in last["hooks"]] == ["grants", "person"]
    assert last["hooks"][0]["reason"].startswith(f"grant {grant.id} of ")
