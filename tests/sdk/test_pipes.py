"""The process of a hook that the kit and the SDK's tests start: its end, and that of its group."""

from __future__ import annotations

import os
import signal

import pytest

from picohook.wire.pipes import Started


@pytest.fixture
def signalled(monkeypatch):
    """The groups that got a signal."""
    groups, killpg = [], os.killpg

    def note(group, number):
        groups.append((group, number))
        killpg(group, number)

    monkeypatch.setattr(os, "killpg", note)
    return groups


def test_a_group_is_signalled_once_before_its_leader_is_reaped(signalled):
    hook = Started(["sh", "-c", "exit 3"], lambda _: None)
    assert hook.wait(60) == 3
    hook.close()
    assert signalled == [(hook.process.pid, signal.SIGKILL)]


def test_a_process_that_still_runs_has_no_exit_code_and_is_killed_when_it_is_closed(signalled):
    hook = Started(["sleep", "600"], lambda _: None)
    assert hook.wait(0) is None
    assert signalled == []
    hook.close()
    assert hook.wait(60) == -signal.SIGKILL


def test_what_a_process_started_ends_with_it():
    output = bytearray()
    hook = Started(["sh", "-c", "sleep 600 & echo started"], output.extend)
    assert hook.wait(60) == 0
    assert hook.pipes.until(lambda: hook.pipes.over, 60)  # the child held the output open
    assert output == b"started\n"
    hook.close()
