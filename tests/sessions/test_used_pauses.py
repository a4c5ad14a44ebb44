"""A pause is used once, and not for longer than it lasts: over processes, crashes and clocks that are set."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from pathlib import Path

import anyio
import preloaded
import pytest
from rows import each
from turns import KEY, Model, Tools, Used, host_with, says, wants

from picohook import Continue, Deny, Host, Modify, Pause, PausedError, PicohookError
from picohook.engine.used_pauses import UsedPausesFile
from picohook.sessions import paused as paused_turns
from picohook.sessions.paused import PausedTurn
from picohook.testing import FakeHook

pytestmark = pytest.mark.anyio

HOUR = 3600.0
USED = "the pause was used before. Ask the person again"
OVER = "the pause is over: it could be answered for 3600 s. Ask the person again"


def pausing(**settings):
    hooks = FakeHook("boss", {"before_tool": Pause("may it?")}), FakeHook("gate", {"approve_tool": True})
    return host_with(*hooks, **settings)


async def paused_in(host):
    async with host.session("s1") as session:
        with pytest.raises(PausedError) as raised:
            async with session.turn("hello") as turn:
                await turn.run(complete=Model(wants("rm")).complete, execute=Tools().execute)
    return raised.value.paused


async def go_on(host, paused, tools, decision=None):
    async with host.session("s1") as session, session.resume(paused, decision or Continue()) as turn:
        await turn.run(complete=Model(says("done")).complete, execute=tools.execute)


async def sealed(**settings):
    async with pausing(**settings) as host:
        return (await paused_in(host)).to_json(KEY)


KEPT = {
    "the object": lambda paused: paused,
    "a copy": lambda paused: paused.model_copy(deep=True),
    "a sealed text": lambda paused: PausedTurn.from_json(paused.to_json(KEY), KEY),
    "a text": lambda paused: PausedTurn.from_json(paused.to_json()),
}


@each("again", KEPT)
@each("kept", KEPT)
async def test_A13_a_pause_is_used_once_in_whatever_form_it_was_kept(kept, again):
    tools = Tools()
    async with pausing() as host:
        paused = await paused_in(host)
        await go_on(host, KEPT[kept](paused), tools)
        with pytest.raises(PicohookError, match=USED):
            await go_on(host, KEPT[again](paused), tools)
    assert tools.ran == ["rm"]


@pytest.mark.parametrize(("first", "ran"), [(Deny("no"), []), (Modify({"arguments": "wrong"}), [])])
async def test_A13_a_no_and_a_wrong_answer_use_it_up_too(first, ran):
    tools = Tools()
    async with pausing() as host:
        paused = await paused_in(host)
        with contextlib.suppress(PicohookError):  # the wrong one cannot be taken
            await go_on(host, paused, tools, first)
        with pytest.raises(PicohookError, match=USED):
            await go_on(host, paused, tools)
    assert tools.ran == ran


async def test_A13_of_many_at_once_one_uses_it():
    tools, refused = Tools(), []
    async with pausing() as host, anyio.create_task_group() as tasks:
        paused = await paused_in(host)

        async def one():
            try:
                await go_on(host, paused, tools)
            except PicohookError as error:
                refused.append(str(error))

        for _ in range(20):
            tasks.start_soon(one)
    assert (tools.ran, refused) == (["rm"], [USED] * 19)


async def test_A13_each_pause_of_a_turn_is_a_new_one():
    tools = Tools()
    async with pausing() as host, host.session("s1") as session:
        with pytest.raises(PausedError) as raised:
            async with session.turn("hello") as turn:
                await turn.run(complete=Model(wants("a", "b")).complete, execute=tools.execute)
        with pytest.raises(PausedError) as again:
            async with session.resume(raised.value.paused, Continue()) as turn:
                await turn.run(complete=Model().complete, execute=tools.execute)
        assert raised.value.paused.nonce != again.value.paused.nonce
        await go_on(host, again.value.paused, tools)
    assert sorted(tools.ran) == ["a", "b"]


async def test_A13_a_turn_that_is_not_entered_uses_no_pause_and_runs_nothing():
    tools = Tools()
    async with pausing() as host, host.session("s1") as session:
        paused = await paused_in(host)
        turn = session.resume(paused, Continue())
        for step in (
            lambda: turn.run(complete=Model().complete, execute=tools.execute),
            lambda: turn.tools(None, tools.execute),
        ):
            with pytest.raises(PicohookError, match="this turn is resumed inside its block: use `async with`"):
                await step()
        await go_on(host, paused, tools)
        with pytest.raises(PicohookError, match=USED):
            async with turn:
                await turn.tools(None, tools.execute)
    assert tools.ran == ["rm"]


async def test_A13_a_turn_that_is_entered_again_is_refused():
    tools = Tools()
    async with pausing() as host, host.session("s1") as session:
        turn = session.resume(await paused_in(host), Continue())
        async with turn:
            pass
        with pytest.raises(PicohookError, match=USED):
            async with turn:
                await turn.tools(None, tools.execute)
    assert tools.ran == []


# In other processes, and after a crash.


async def elsewhere(text, store, tmp_path, **orders):
    """What another process says that resumes the turn; None if it was refused or died."""
    orders |= {"paused": text, "store": str(store), "sealed": True, "strict": False, "at": "before_tool"}
    done = await anyio.run_process(
        [preloaded.program("python"), str(Path(__file__).with_name("resume_elsewhere.py"))],
        input=json.dumps({**orders, "log": str(tmp_path / "asked")}).encode(),
        check=False,
    )
    if done.returncode:
        assert orders.get("dies") or USED in done.stderr.decode()
        return None
    return json.loads(done.stdout)["ran"]


async def test_A13_of_several_processes_one_uses_it(tmp_path):
    text, store = await sealed(), tmp_path / "state" / "used.json"
    ran = []

    async def one():
        ran.append(await elsewhere(text, store, tmp_path))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(one)
    assert sorted(ran, key=str) == [None, None, None, ["rm"]]


async def test_A13_a_process_that_dies_before_it_runs_the_call_has_used_the_pause(tmp_path):
    text, store = await sealed(), tmp_path / "used.json"
    assert await elsewhere(text, store, tmp_path, dies=True) is None
    assert await elsewhere(text, store, tmp_path) is None


# The time that it lasts.


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets, and the boot of the machine."""

    class Clock:
        now, boot, uptime = 1_800_000_000.0, "boot-1", 50.0

        def passes(self, seconds, *, is_set=0.0):
            self.now += seconds + is_set
            self.uptime += seconds

    made = Clock()
    monkeypatch.setattr(time, "time", lambda: made.now)
    monkeypatch.setattr(paused_turns, "_uptime", lambda: (made.boot, made.uptime))
    return made


@pytest.mark.parametrize(
    ("passes", "is_set", "boot", "is_alive"),
    [
        (0, 0, "boot-1", True),
        (HOUR, 0, "boot-1", True),
        (HOUR + 1, 0, "boot-1", False),
        (HOUR + 1, -HOUR, "boot-1", False),
        (10, HOUR, "boot-1", False),
        (10, -HOUR, "boot-1", True),
        (10, -HOUR, "boot-2", False),
        (10, -5, "boot-2", True),
        (HOUR + 1, 0, "", False),
        (10, -11, "", False),
    ],
)
async def test_A13_a_pause_lasts_an_hour_also_by_a_clock_that_is_set(clock, passes, is_set, boot, is_alive):
    tools = Tools()
    async with pausing() as host:
        paused = await paused_in(host)
        clock.passes(passes, is_set=is_set)
        clock.boot = boot
        if is_alive:
            await go_on(host, paused, tools)
        else:
            with pytest.raises(PicohookError, match=OVER):
                await go_on(host, paused, tools)
    assert tools.ran == ["rm"] * is_alive


async def test_a_host_says_how_long_its_pauses_last(clock):
    tools = Tools()
    async with pausing(pause_lasts=5) as host:
        paused = await paused_in(host)
        clock.passes(6)
        with pytest.raises(PicohookError, match="the pause is over: it could be answered for 5 s"):
            await go_on(host, paused, tools)
    for wrong in (0, -1, float("inf"), float("nan")):
        with pytest.raises(PicohookError, match="`pause_lasts` is"):
            Host(pause_lasts=wrong)


@pytest.mark.parametrize("change", [{"nonce": "0"}, {"lasts": 1e9}, {"made_at": 2e9}, {"boot": "x"}, {"uptime": 0}])
async def test_A13_no_one_can_make_a_sealed_pause_new(change):
    text = json.loads(await sealed())
    text["turn"] |= change
    with pytest.raises(PicohookError, match="was changed, or sealed with another key"):
        PausedTurn.from_json(json.dumps(text), KEY)


async def test_A13_a_text_without_a_seal_lasts_no_longer_than_its_host_lets_pauses_last(clock):
    tools = Tools()
    async with pausing() as host:
        text = json.loads((await paused_in(host)).to_json())
        text["turn"] |= {"lasts": 1e9, "nonce": "another"}
        clock.passes(HOUR + 1)
        with pytest.raises(PicohookError, match=OVER):
            await go_on(host, PausedTurn.from_json(json.dumps(text)), tools)
        text["turn"] |= {"nonce": "x" * 65}
        with pytest.raises(PicohookError, match="nonce: String should have at most 64 characters"):
            PausedTurn.from_json(json.dumps(text))
    assert tools.ran == []


# The store.


async def test_A13_a_host_without_a_store_resumes_no_turn():
    async with pausing() as host:
        paused = await paused_in(host)
    async with pausing(used_pauses=None) as host, host.session("s1") as session:
        with pytest.raises(PicohookError, match="it has no store of used pauses"):
            session.resume(paused, Continue())


class Broken:
    def __init__(self, answer):
        self.answer = answer

    def use(self, pause, until):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [OSError("no network"), None, 1, "yes", [True]])
async def test_A13_a_store_that_fails_or_does_not_say_true_is_no_yes(answer):
    tools = Tools()
    async with pausing(used_pauses=Broken(answer)) as host:
        with pytest.raises(PicohookError, match="the pause cannot be noted as used, so it is not: "):
            await go_on(host, await paused_in(host), tools)
    assert tools.ran == []


async def test_a_store_may_be_async():
    class Shared(Used):
        async def use(self, pause, until):
            await anyio.lowlevel.checkpoint()
            return super().use(pause, until)

    tools = Tools()
    async with pausing(used_pauses=Shared()) as host:
        paused = await paused_in(host)
        await go_on(host, paused, tools)
        with pytest.raises(PicohookError, match=USED):
            await go_on(host, paused, tools)
    assert tools.ran == ["rm"]


def test_the_file_is_this_users_and_only_this_users(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store = UsedPausesFile()
    assert [store.use("a", time.time() + 60) for _ in range(2)] == [True, False]
    file = tmp_path / "picohook" / "used-pauses.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert UsedPausesFile().use("a", time.time() + 60) is False


def test_A13_the_file_never_lies_in_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platformdirs.user_state_dir", lambda name: f"state/{name}")  # as with a relative HOME
    with pytest.raises(PicohookError, match="does not name a whole path"):
        UsedPausesFile().use("a", time.time() + 60)
    assert [*tmp_path.iterdir()] == []


def test_A13_what_the_file_forgets_is_not_new_when_the_clock_is_set_back(clock, tmp_path):
    store, file = UsedPausesFile(tmp_path / "used.json"), tmp_path / "used.json"
    assert store.use("short", clock.now + 60)
    assert store.use("long", clock.now + 2 * HOUR)
    clock.now += HOUR
    assert store.use("other", clock.now + 60)
    assert json.loads(file.read_text())["used"].keys() == {"long", "other"}
    clock.now -= HOUR
    assert not store.use("short", clock.now + 60)
    assert not store.use("long", clock.now + 2 * HOUR)
    assert not store.use("one that was never used, and ends as early", clock.now + 60)
    assert store.use("new", clock.now + 2 * HOUR)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 1}',
        '{"version": 2, "forgotten": 0, "used": {}}',
        '{"version":1,"forgotten":0,"used":{"a":"x"}}',
        "[" * 100_000,
    ],
)
async def test_A13_a_damaged_file_is_no_yes_and_is_left_as_it_is(text, tmp_path):
    file = tmp_path / "used.json"
    file.write_text(text)
    tools = Tools()
    async with pausing(used_pauses=UsedPausesFile(file)) as host:
        with pytest.raises(PicohookError, match="is damaged, or of a newer picohook"):
            await go_on(host, await paused_in(host), tools)
    assert (tools.ran, file.read_text()) == ([], text)


def directory(path):
    path.mkdir()


def fifo(path):
    os.mkfifo(path)


@pytest.mark.parametrize("make", [directory, fifo])
async def test_A13_a_file_that_cannot_be_one_is_no_yes(make, tmp_path):
    make(tmp_path / "used.json")
    tools = Tools()
    async with pausing(used_pauses=UsedPausesFile(tmp_path / "used.json")) as host:
        with pytest.raises(PicohookError, match="the pause cannot be noted as used, so it is not: "):
            await go_on(host, await paused_in(host), tools)
    assert tools.ran == []
