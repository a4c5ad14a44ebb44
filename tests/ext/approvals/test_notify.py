"""`notify`: a program that gets the call when it waits."""

from __future__ import annotations

import json
import os

import anyio
import preloaded
import pytest

from picohook import HookSpec, ToolCall
from picohook.ext.approvals.queue import Answer
from picohook.testing import RecordingHost

from .conftest import Log, come

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash", arguments={"command": "ls"})


def notifying(*command, log=None):
    spec = HookSpec(name="person", approver="queue", approval_timeout=60, notify=command)
    return RecordingHost([spec], logger=log)


async def test_a_program_is_told_of_the_call_and_its_answer_counts_for_nothing(queue, tmp_path):
    told = tmp_path / "told"
    script = f"import sys; open({os.fspath(told)!r}, 'w').write(sys.stdin.read()); print('{{\"approved\": true}}')"
    async with notifying(preloaded.program("python"), "-c", script) as host, anyio.create_task_group() as group:
        outcomes = []

        async def ask():
            outcomes.append(await host.approve_tool(CALL))

        group.start_soon(ask)
        [waiting] = await come(queue)
        while not told.exists() or not told.read_text().endswith("\n"):
            await anyio.sleep(0.01)
        said = json.loads(told.read_text())
        assert outcomes == []
        queue.answer(waiting.id, Answer(False, "", ""))
    assert outcomes[0].approved is False
    assert (said["id"], said["hook"], said["link"], said["call"]["arguments"]) == (
        waiting.id,
        "person",
        "",
        {"command": "ls"},
    )


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["false"], "it exited with code 1"),
        (["sh", "-c", "echo no net >&2; exit 7"], "code 7: no net"),
        (["nowhere"], "nowhere"),
    ],
)
async def test_a_program_that_fails_is_logged_and_the_call_waits(queue, command, why):
    log = Log()
    async with notifying(*command, log=log) as host, anyio.create_task_group() as group:
        group.start_soon(host.approve_tool, CALL)
        [waiting] = await come(queue)
        while not log.warnings:
            await anyio.sleep(0.01)
        queue.answer(waiting.id, Answer(True, "", ""))
    [(event, reason)] = log.warnings
    assert event == "nobody was notified"
    assert why in reason


async def test_a_program_that_hangs_ends_with_the_answer(queue):
    async with notifying("sleep", "1000") as host, anyio.create_task_group() as group:
        group.start_soon(host.approve_tool, CALL)
        [waiting] = await come(queue)
        queue.answer(waiting.id, Answer(True, "", ""))
