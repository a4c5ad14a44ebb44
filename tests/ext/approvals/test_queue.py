"""The queue as a file: who may open it, what is in it, and what a program that is killed leaves."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import threading

import pytest

from picohook import PicohookError
from picohook.ext.approvals import database, queue as module
from picohook.ext.approvals.queue import INLINE, Answer, Queue

from .conftest import a_call

YES, NO = Answer(True, "", "the terminal"), Answer(False, "use git mv", "the page")


def forked(work):
    """Run this in a process of its own, which is killed when it is done."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_only_this_user_can_open_it(queue):
    assert stat.S_IMODE(os.stat(queue.directory).st_mode) == 0o700
    assert queue.count() == 0
    for name in os.listdir(queue.directory):
        assert stat.S_IMODE(os.stat(os.path.join(queue.directory, name)).st_mode) == 0o600


def test_a_file_that_others_may_open_is_refused_and_so_is_a_link(queue, tmp_path):
    path, directory = queue.path, queue.directory
    os.chmod(path, 0o640)
    with pytest.raises(PicohookError, match=f"{path}: other users may open it: chmod go= "):
        Queue()
    os.chmod(path, 0o600)
    os.chmod(directory, 0o711)
    with pytest.raises(PicohookError, match=f"{directory}: other users may open it"):
        Queue()
    os.chmod(directory, 0o700)
    Queue().close()
    for place in (path, directory):
        os.rename(place, tmp_path / "elsewhere")
        os.symlink(tmp_path / "elsewhere", place)
        with pytest.raises(PicohookError, match="a link is not followed"):
            Queue()
        os.unlink(place)
        os.rename(tmp_path / "elsewhere", place)
    Queue().close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_refused(queue):
    os.chown(queue.path, 12345, -1)
    with pytest.raises(PicohookError, match="belongs to another user"):
        Queue()


def test_a_newer_file_and_a_damaged_one_are_named_with_the_way_out(queue):
    changing = sqlite3.connect(queue.path)
    changing.execute("PRAGMA user_version = 7")
    changing.close()
    with pytest.raises(PicohookError, match="is of version 7, and this picohook knows 2: update picohook"):
        Queue()
    queue.close()
    for name in os.listdir(queue.directory):
        os.unlink(os.path.join(queue.directory, name))
    with open(queue.path, "wb") as file:
        file.write(b"not a database, but long enough to be taken for one" * 100)
    os.chmod(queue.path, 0o600)
    with pytest.raises(PicohookError, match="is not a database: move it away"):
        Queue()


def test_a_user_without_a_directory_is_told(monkeypatch):
    monkeypatch.setattr("platformdirs.user_state_dir", lambda name: f"state/{name}")  # as with a relative HOME
    with pytest.raises(PicohookError, match="XDG_STATE_HOME or HOME does not name a whole path"):
        Queue()


def test_the_first_answer_counts_and_is_used_once(queue, host):
    one = a_call()
    host.exchange([one])
    assert host.exchange() == []
    queue.answer(one.id, NO)
    for later in (YES, NO):
        with pytest.raises(PicohookError, match=f"{one.id} was answered already: no, by the page"):
            queue.answer(one.id, later)
    [used] = host.exchange()
    assert (used.id, used.call, used.answer) == (one.id, one.call, NO)
    assert (queue.waiting(), host.exchange()) == ([], [])
    assert queue.find(one.id).call == b""  # nobody needs it any more


def test_many_answers_at_once_are_one_answer(queue, host):
    one = a_call()
    host.exchange([one])
    accepted = []

    def person(yes):
        own = Queue()
        try:
            own.answer(one.id, Answer(yes, "", str(yes)))
            accepted.append(yes)
        except PicohookError:
            pass
        own.close()

    threads = [threading.Thread(target=person, args=(bool(number % 2),)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accepted) == 1
    assert [used.answer for used in host.exchange()] == [Answer(accepted[0], "", str(accepted[0]))]


def test_an_answer_after_the_time_is_refused(queue, host):
    late, over, gone = a_call(lasts=-1), a_call(), a_call()
    for one in (late, over, gone):
        host.exchange([one])
    queue.exchange(left={over.id: "over"})
    queue.exchange(left={gone.id: "gone"})
    assert (queue.waiting(), queue.count()) == ([], 0)
    for one, why in (
        (late, "was not answered in time"),
        (over, "was not answered in time"),
        (gone, "its caller has gone"),
    ):
        with pytest.raises(PicohookError, match=f"{one.id} .*{why}"):
            queue.answer(one.id, YES)
    assert host.exchange() == []
    with pytest.raises(PicohookError, match="no call 123 is in the queue: see picohook approvals"):
        queue.answer("123", YES)


def test_an_answer_that_nobody_has_used_is_not_used_once_its_host_has_withdrawn_the_call(queue, host):
    one = a_call()
    host.exchange([one])
    queue.answer(one.id, YES)
    queue.exchange(left={one.id: "over"})
    assert host.exchange() == []


def test_the_calls_of_a_host_that_was_killed_leave_the_queue_and_those_of_others_stay(queue, host):
    mine, theirs, answered = a_call(), a_call(), a_call()
    host.exchange([mine])

    def another():
        own = Queue(present=True)
        for one in (theirs, answered):
            own.exchange([one])
        own.answer(answered.id, YES)

    forked(another)
    assert [one.id for one in queue.waiting()] == [mine.id, theirs.id]
    queue.remove_dead()
    assert [one.id for one in queue.waiting()] == [mine.id]
    assert queue.find(answered.id).state == "gone"
    with pytest.raises(PicohookError, match="its caller has gone"):
        queue.answer(theirs.id, YES)
    assert [name for name in os.listdir(queue.directory) if name.endswith(".alive")] == [f"{host.host}.alive"]


def test_a_program_that_was_killed_while_it_wrote_blocks_nobody(queue, host):
    def killed():
        own = Queue()
        own._db.execute("BEGIN IMMEDIATE")
        own._db.execute("DELETE FROM calls")

    one = a_call()
    host.exchange([one])
    forked(killed)
    queue.answer(one.id, YES)
    assert [used.answer for used in host.exchange()] == [YES]


def test_a_program_that_stands_still_while_it_writes_is_named_and_may_go_on(queue, host, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.05)
    other = Queue(present=True)
    queue._db.execute("BEGIN IMMEDIATE")
    with pytest.raises(PicohookError, match="database is locked"):
        other.exchange([a_call()])
    queue._db.execute("ROLLBACK")
    other.exchange([a_call()])
    assert other.count() == 1
    other.close()


def test_several_programs_can_make_the_file_at_the_same_time(state):
    made, failed = [], []

    def make():
        try:
            made.append(Queue())
        except PicohookError as error:
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), failed) == (8, [])
    assert len({queue.signature("a") for queue in made}) == 1
    for queue in made:
        queue.close()


def test_a_change_by_any_program_is_seen_and_a_file_that_was_removed(queue, host):
    queue, other = host, Queue(present=True)
    seen = [queue.version()]
    assert queue.version() == seen[0]
    for change in (other, queue):
        change.exchange([a_call()])
        seen.append(queue.version())
    assert len({*seen}) == 3
    other.close()
    os.rename(queue.path, f"{queue.path}.old")
    with pytest.raises(PicohookError, match="No such file"):
        queue.version()
    Queue().close()
    with pytest.raises(PicohookError, match="was replaced"):
        queue.version()


def test_a_list_has_the_beginning_of_a_large_call_and_the_call_itself_is_whole(queue, host):
    large = a_call(b'{"tool":"write","arguments":{"content":"' + b"x" * (10 << 20) + b'"}}')
    host.exchange([large])
    [listed] = queue.waiting()
    assert (listed.call, listed.size) == (large.call[:INLINE], len(large.call))
    assert queue.find(large.id).call == large.call
    queue.answer(large.id, YES)
    assert [(used.call, used.answer) for used in host.exchange()] == [(large.call, YES)]


def test_a_list_is_in_order_and_can_be_cut(queue, host):
    calls = [a_call() for _ in range(5)]
    for one in calls:
        host.exchange([one])
    assert [one.id for one in queue.waiting()] == [one.id for one in calls]
    assert [one.id for one in queue.waiting(2)] == [one.id for one in calls[:2]]


def test_what_ended_long_ago_is_forgotten(queue, host):
    old, new = a_call(lasts=-module.KEPT - 1), a_call()
    for one in (old, new):
        host.exchange([one])
        queue.exchange(left={one.id: "over"})
    queue.remove_dead()
    assert queue.find(new.id).state == "over"
    with pytest.raises(PicohookError, match=f"no call {old.id}"):
        queue.find(old.id)


def test_the_calls_of_a_program_wait_as_long_as_it_lives_and_leave_no_file_with_it(queue):
    own, one = Queue(present=True), a_call()
    own.exchange([one])
    for _ in range(2):  # looking does not end it
        queue.remove_dead()
        assert [waiting.id for waiting in queue.waiting()] == [one.id]
    own.close()
    assert queue.find(one.id).state == "gone"
    assert [name for name in os.listdir(queue.directory) if name.endswith(".alive")] == []


def test_a_program_whose_calls_never_came_into_the_queue_leaves_no_file(queue):
    Queue(present=True).close()
    assert [name for name in os.listdir(queue.directory) if name.endswith(".alive")] == []
