"""The spool: what it promises to keep, and what becomes of the rest."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import stat
from contextlib import contextmanager

import pytest

from picohook import PicohookError
from picohook.transport.nats import spool as module
from picohook.transport.nats.spool import Spool

LONG = 30.0
"""Seconds that are never reached."""


@contextmanager
def spool_at(path, **settings):
    spool = Spool(path, **settings)
    try:
        yield spool
    finally:
        spool.close()
        spool.release()


def put(spool, *numbers):
    return [spool.put({"n": n}, b'{"about":"%d"}' % n) for n in numbers]


def kept(spool, *numbers):
    before = spool.put_count
    put(spool, *numbers)
    assert spool.wait_kept(before + len(numbers), LONG)


def numbers(events):
    return [event.head["n"] for event in events]


def events_in(path):
    with spool_at(path) as spool:
        return spool.read(100_000)


def files(path):
    return sorted(name.rpartition(".")[2] for name in os.listdir(path))


def test_events_are_read_in_the_order_in_which_they_were_put(tmp_path):
    with spool_at(tmp_path / "s") as spool:
        kept(spool, *range(100))
        first, rest = spool.read(30), spool.read(100)
        assert numbers(first + rest) == list(range(100))
        assert first[7].body == b'{"about":"7"}'
        assert len({event.id for event in first + rest}) == 100
        assert spool.read(1) == []


def test_an_event_that_is_read_again_has_the_same_id(tmp_path):
    with spool_at(tmp_path / "s") as spool:
        kept(spool, 1, 2)
        before = spool.read(9)
        spool.rewind()
        assert spool.read(9) == before
    assert [event.id for event in events_in(tmp_path / "s")] == [event.id for event in before]


def test_what_is_acknowledged_is_not_read_again_even_by_the_next_host(tmp_path):
    with spool_at(tmp_path / "s") as spool:
        kept(spool, *range(5))
        spool.acknowledge(spool.read(2)[1])
        spool.rewind()
        assert numbers(spool.read(9)) == [2, 3, 4]
    assert numbers(events_in(tmp_path / "s")) == [2, 3, 4]


def test_files_that_are_acknowledged_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_FILE", 100)
    with spool_at(tmp_path / "s") as spool:
        kept(spool, *range(20))
        assert files(tmp_path / "s").count("events") > 2
        spool.acknowledge(spool.read(20)[-1])
        assert files(tmp_path / "s").count("events") <= 1
        kept(spool, 20)
        (last,) = spool.read(9)
        assert last.head == {"n": 20}
        spool.acknowledge(last)
    assert files(tmp_path / "s") == []


def test_nothing_is_left_of_a_host_whose_events_were_all_acknowledged(tmp_path):
    with spool_at(tmp_path / "s") as spool:
        kept(spool, 1, 2)
        spool.acknowledge(spool.read(9)[-1])
        spool.acknowledge(spool.read(9)[-1]) if spool.read(9) else None
    assert os.listdir(tmp_path / "s") == []


def test_an_acknowledgement_that_comes_twice_removes_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_FILE", 1)
    with spool_at(tmp_path / "s") as spool:
        kept(spool, 1, 2, 3)
        first = spool.read(1)[0]
        spool.acknowledge(first)
        spool.acknowledge(first)
        assert numbers(spool.read(9)) == [2, 3]


@pytest.mark.parametrize("sync", ["system", "disk"])
def test_a_host_that_is_killed_loses_nothing_that_was_kept(tmp_path, sync):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        spool = Spool(tmp_path / "s", sync=sync)
        for start in range(0, 500, 50):
            kept(spool, *range(start, start + 50))
            os.write(writing, b"%d\n" % (start + 50))
        put(spool, 998, 999)
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as said:
        count = int(said.read().split()[-1])
    found = numbers(events_in(tmp_path / "s"))
    assert found[:count] == list(range(500))
    assert found[count:] in ([], [998], [998, 999])


def test_an_incomplete_or_damaged_line_is_not_read(tmp_path):
    with spool_at(tmp_path / "s") as spool:
        kept(spool, *range(4))
    (file,) = (tmp_path / "s").glob("*.events")
    lines = file.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"1"', b'"7"')
    file.write_bytes(b"".join(lines)[:-3])
    with spool_at(tmp_path / "s") as spool:
        assert numbers(spool.read(9)) == [0, 2]
        assert spool.damaged == 1


def test_no_id_is_used_again_after_an_event_was_lost(tmp_path):
    with spool_at(tmp_path / "s") as spool:
        kept(spool, 1, 2)
        ids = {event.id for event in spool.read(9)}
    (file,) = (tmp_path / "s").glob("*.events")
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    with spool_at(tmp_path / "s") as spool:
        kept(spool, 3)
        old, new = spool.read(9)
    assert old.id in ids
    assert new.id not in ids


def test_two_hosts_share_a_directory_and_leave_each_others_events_alone(tmp_path):
    with spool_at(tmp_path / "s") as one:
        kept(one, 1)
        with spool_at(tmp_path / "s") as other:
            kept(other, 2)
            assert numbers(one.read(9)) == [1]
            assert numbers(other.read(9)) == [2]
        kept(one, 3)
        assert numbers(one.read(9)) == [3]
    assert sorted(numbers(events_in(tmp_path / "s"))) == [1, 2, 3]


def test_a_full_spool_drops_the_newest_events_and_counts_them(tmp_path):
    with spool_at(tmp_path / "s", most=1000) as spool:
        accepted = put(spool, *range(100))
        count = accepted.count(True)
        assert accepted == [True] * count + [False] * (100 - count)
        assert spool.wait_kept(count, LONG)
        assert 0 < spool.size <= 1000
        assert spool.dropped == 100 - count
        assert spool.take_drops() == (100 - count, "the spool is full")
        assert not spool.take_drops()
        assert numbers(spool.read(100)) == list(range(count))


def test_an_event_that_is_larger_than_what_may_wait_is_dropped_with_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_IN_MEMORY", 1000)
    with spool_at(tmp_path / "s") as spool:
        assert not spool.put({}, b"x" * 2000)
        kept(spool, 1)
        assert spool.take_drops() == (1, "one has 2013 bytes, and 1000 are allowed")
        assert numbers(spool.read(9)) == [1]


def test_a_read_ends_with_the_event_that_makes_it_large(tmp_path):
    with spool_at(tmp_path / "s") as spool:
        kept(spool, *range(9))
        size = spool.size // 9
        assert numbers(spool.read(9, 1)) == [0]
        assert numbers(spool.read(9, 2 * size + 1)) == [1, 2, 3]
        assert numbers(spool.read(9)) == [4, 5, 6, 7, 8]


def test_a_full_spool_takes_events_again_when_some_are_acknowledged(tmp_path):
    with spool_at(tmp_path / "s", most=1000) as spool:
        count = put(spool, *range(100)).count(True)
        assert spool.wait_kept(count, LONG)
        spool.acknowledge(spool.read(100)[-1])
        kept(spool, 100)
        assert numbers(spool.read(9)) == [100]


def test_events_that_are_left_count_against_the_limit(tmp_path):
    with spool_at(tmp_path / "s", most=1000) as spool:
        count = put(spool, *range(100)).count(True)
        assert spool.wait_kept(count, LONG)
    with spool_at(tmp_path / "s", most=1000) as spool:
        assert put(spool, 1) == [False]


def test_events_wait_in_memory_while_the_disk_is_full_and_are_written_later(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0.01)
    monkeypatch.setattr(module, "MOST_IN_MEMORY", 50_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with spool_at(tmp_path / "s") as spool:
        kept(spool, 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
        try:
            accepted = [0, *itertools.compress(range(1, 3000), put(spool, *range(1, 3000)))]
            count = len(accepted)
            assert count < 3000
            assert not spool.wait_kept(count, 0.2)
            assert spool.failure == "File too large"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert spool.wait_kept(count, LONG)
        assert numbers(spool.read(3000)) == accepted
        assert spool.take_drops().events == 3000 - count


def test_a_full_disk_takes_what_fits_and_events_that_are_sent_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0.01)
    room, write = [1000], os.write

    def small_disk(descriptor, data):
        if not room[0]:
            raise OSError(28, "No space left on device")
        count = write(descriptor, bytes(data)[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(module.os, "write", small_disk)
    with spool_at(tmp_path / "s") as spool:
        put(spool, *range(100))
        assert spool.wait_kept(1, LONG)
        assert not spool.wait_kept(100, 0.1)
        some = spool.read(100)
        assert 0 < len(some) == spool.kept < 100
        spool.acknowledge(some[-1])
        room[0] = 100_000
        assert spool.wait_kept(100, LONG)
        assert numbers(some + spool.read(100)) == list(range(100))
        assert len(os.listdir(tmp_path / "s")) == 2


def test_a_directory_that_cannot_be_synced_for_a_while_delays_events_and_loses_none(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0.01)
    fsync, failures = os.fsync, [OSError(5, "Input/output error")] * 2

    def fails_twice(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) and failures:
            raise failures.pop()
        fsync(descriptor)

    monkeypatch.setattr(module.os, "fsync", fails_twice)
    with spool_at(tmp_path / "s", sync="disk") as spool:
        kept(spool, 1, 2)
        assert not failures
        assert numbers(spool.read(9)) == [1, 2]
        assert files(tmp_path / "s") == ["events", "lock"]


def test_only_the_user_can_read_the_files(tmp_path):
    with spool_at(tmp_path / "s") as spool:
        kept(spool, 1)
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "s").iterdir()}
        assert modes == {0o600}
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o700


def test_a_directory_that_others_can_write_is_refused(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s").chmod(0o777)
    with pytest.raises(PicohookError, match="can be written by other users"):
        Spool(tmp_path / "s")


def test_a_place_that_is_no_directory_is_refused(tmp_path):
    (tmp_path / "s").write_text("")
    with pytest.raises(PicohookError, match="cannot be used: File exists"):
        Spool(tmp_path / "s")


def test_an_event_after_the_end_is_dropped(tmp_path):
    spool = Spool(tmp_path / "s")
    spool.close()
    assert put(spool, 1) == [False]
    assert spool.take_drops() == (1, "the host has ended")
