"""A recorder writes down questions, answers and events of a host, and never holds it up."""

from __future__ import annotations

import json
import os
import stat
import threading

import anyio
import pytest
from loops import ON_BOTH

from picohook import (
    Account,
    Continue,
    Deny,
    FunctionHook,
    Host,
    Listener,
    Meta,
    Modify,
    Notes,
    PicohookError,
    Recorder,
    Respond,
    Retry,
    ToolCall,
)
from picohook.ext.record.recorder import BEGINNING, open_record
from picohook.testing import hook_process

pytestmark = pytest.mark.anyio


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def of_type(path, *types):
    return [line for line in lines(path) if line["type"] in types]


def types(path):
    return [line["type"] for line in lines(path)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "session.jsonl"


def rename(call):
    return Modify({"tool": "sh"}, notes=Notes(system_message="renamed"))


def deny(call):
    return Deny(f"no {call.tool}")


async def test_a_chain_is_written_hook_by_hook_with_params_only_where_they_differ(path):
    hooks = [
        FunctionHook("choosy", {"before_tool": deny}, filter={"tool": "web"}),
        FunctionHook("first", {"before_tool": lambda call: Continue()}),
        FunctionHook("second", {"before_tool": rename}),
        FunctionHook("third", {"before_tool": deny}),
    ]
    async with Host(hooks, listeners=[Recorder(path)]) as host:
        await host.before_tool(ToolCall(tool="bash", arguments={"n": 1}))
    header, *rest = lines(path)
    chain = [line for line in rest if line["type"] in {"begin", "ask", "answer", "end"}]
    assert (header["type"], header["version"]) == ("record", 1)
    assert [(line["type"], line.get("hook"), line.get("params", {}).get("tool")) for line in chain] == [
        ("begin", None, "bash"),
        ("ask", "first", None),
        ("answer", "first", None),
        ("ask", "second", None),
        ("answer", "second", "sh"),
        ("ask", "third", None),
        ("answer", "third", None),
        ("end", "third", None),
    ]
    assert chain[4]["notes"] == {"system_message": "renamed"}
    assert (chain[-1]["action"], chain[-1]["reason"], chain[-1]["skipped"]) == ("deny_tool", "no sh", ["choosy"])
    assert rest[-1]["type"] == "close"
    assert [line["at"] for line in rest] == sorted(line["at"] for line in rest)


async def test_the_environment_of_a_hook_is_not_written(path):
    hook = hook_process("def before_tool(params):\n    return {}", env={"TOKEN": "s3cret"})
    async with Host([hook], listeners=[Recorder(path)]) as host:
        await host.before_tool(ToolCall(tool="bash"))
    assert b"s3cret" not in path.read_bytes()
    assert "end" in types(path)


async def test_numbers_and_texts_are_exact(path):
    odd = {"n": 2**80 + 1, "small": -(2**63) - 1, "text": "line\nend\u2028 \x00 é 💥", "none": None, "float": 0.1}
    async with Host([FunctionHook("a", {"before_tool": deny})], listeners=[Recorder(path)]) as host:
        await host.before_tool(ToolCall(tool="bash", arguments=odd))
        host.emit("turn_start", odd, meta=Meta(session_key="s1"))
    begin, event = of_type(path, "begin", "event")
    assert begin["params"]["arguments"] == odd
    assert (event["payload"], event["meta"], event["hooks"]) == (odd, {"SessionKey": "s1"}, [])


async def test_every_kind_of_answer_is_written(path):
    answers = {
        "before_tool": lambda call: Respond({"for_llm": "42"}),
        "before_llm": lambda request: Retry("once more"),
        "approve_tool": lambda call: True,
        "after_tool": lambda returned: 1 / 0,
    }
    async with Host([FunctionHook("a", answers)], listeners=[Recorder(path)]) as host:
        await host.ask("before_tool", {"tool": "t"})
        await host.before_llm({})
        await host.approve_tool({"tool": "t"})
        await host.after_tool({"tool": "t", "result": {}})
    respond, retry, approve, failed = of_type(path, "answer")
    assert (respond["action"], respond["result"]["for_llm"]) == ("respond", "42")
    assert (retry["action"], retry["feedback"]) == ("retry", "once more")
    assert [line.get("approved") for line in of_type(path, "end")] == [None, None, True, None]
    assert approve["action"] == "continue"
    assert (failed["action"], failed["failed"]) == ("continue", "error")
    assert failed["error"].startswith("ZeroDivisionError: division by zero (test_recorder.py:")


@ON_BOTH
async def test_a_question_whose_caller_was_cancelled_is_written_without_an_answer(path):
    asked = anyio.Event()

    async def never(call):
        asked.set()
        await anyio.sleep_forever()

    slow = FunctionHook("slow", {"before_tool": never})
    async with Host([slow], listeners=[Recorder(path)]) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.before_tool, ToolCall(tool="bash"))
        await asked.wait()
        tasks.cancel_scope.cancel()
    assert types(path) == ["record", "begin", "ask", "abandoned", "close"]


async def test_an_approver_that_is_not_waited_for_is_written_as_asked(path):
    hanging = anyio.Event()

    async def never(call):
        hanging.set()
        await anyio.sleep_forever()

    async def refuse(call):
        await hanging.wait()
        return False

    hooks = [FunctionHook("a", {"approve_tool": never}), FunctionHook("b", {"approve_tool": refuse})]
    async with Host(hooks, listeners=[Recorder(path)]) as host:
        await host.approve_tool(ToolCall(tool="bash"))
    assert sorted(line["hook"] for line in of_type(path, "ask")) == ["a", "b"]
    assert [line["hook"] for line in of_type(path, "answer")] == ["b"]
    assert [line["approved"] for line in of_type(path, "end")] == [False]


async def test_a_payload_without_a_json_form_is_not_recorded_and_later_ones_are(path, journal):
    async with Host([FunctionHook("a", {"before_tool": deny})], listeners=[Recorder(path)], logger=journal) as host:
        with pytest.raises(PicohookError):
            await host.before_tool(ToolCall(tool="bash", arguments={"n": float("nan")}))
        await host.before_tool(ToolCall(tool="bash"))
    assert types(path) == ["record", "begin", "ask", "answer", "end", "close"]
    assert journal.all("a listener failed") == []


async def test_the_params_of_questions_are_written_with_the_marks_of_other_listeners(path):
    class Marks(Listener):
        def begin(self, stage, payload):
            meta = payload.meta.model_copy(update={"trace_path": "t1"})
            return Account(stage, payload.model_copy(update={"meta": meta}))

    async with Host([FunctionHook("a", {"before_tool": deny})], listeners=[Recorder(path), Marks()]) as host:
        await host.before_tool(ToolCall(tool="bash"))
    begin, ask = of_type(path, "begin", "ask")
    assert (begin["params"]["meta"]["TracePath"], ask.get("params")) == ("t1", None)


# The file.


async def test_only_the_owner_may_read_the_file_and_it_replaces_an_older_record(path):
    for times in (2, 1):
        async with Host([FunctionHook("a", {"before_tool": deny})], listeners=[Recorder(path)]) as host:
            for _ in range(times):
                await host.before_tool(ToolCall(tool="bash"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert types(path).count("end") == times
        path.chmod(0o644)


async def test_a_file_that_is_not_a_record_is_left_alone_and_the_host_does_not_start(path):
    path.write_text("precious")
    path.chmod(0o644)
    with pytest.raises(PicohookError, match="is not a record"):
        async with Host(listeners=[Recorder(path)]):
            raise AssertionError("it was entered")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("precious", 0o644)


@pytest.mark.parametrize("name", ["no/such/directory", ".", "nul\0"])
async def test_a_file_that_cannot_be_made_is_refused_before_anything_runs(tmp_path, name):
    with pytest.raises(PicohookError, match="cannot be written"):
        async with Host(listeners=[Recorder(tmp_path / name)]):
            raise AssertionError("it was entered")


async def test_a_pipe_without_a_reader_is_refused_before_anything_runs(path):
    os.mkfifo(path)
    with pytest.raises(PicohookError, match="cannot be written"):
        async with Host(listeners=[Recorder(path)]):
            raise AssertionError("it was entered")


async def test_X11_two_hosts_do_not_write_one_record(path):
    async with Host(listeners=[Recorder(path)]):
        with pytest.raises(PicohookError, match="is being written by another host: name another file"):
            async with Host(listeners=[Recorder(path)]):
                raise AssertionError("it was entered")
    assert types(path) == ["record", "close"]


@pytest.mark.parametrize("linked", ["file", "directory"])
async def test_X10_a_link_in_the_working_directory_is_not_recorded_to(tmp_path, monkeypatch, linked):
    (tmp_path / "work").mkdir()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    if linked == "file":
        os.symlink("../other/record", "record")
    else:
        os.symlink("../other", "logs")
    with pytest.raises(PicohookError, match="is a link to"):
        async with Host(listeners=[Recorder("record" if linked == "file" else "logs/record")]):
            raise AssertionError("it was entered")
    assert not os.listdir(tmp_path / "other")


def test_X11_a_file_that_is_replaced_by_a_record_while_it_is_opened_keeps_its_content(path, tmp_path, monkeypatch):
    """What is looked at has to be what is emptied."""
    path.write_text("precious")
    (tmp_path / "decoy").write_bytes(BEGINNING)
    opened = os.open

    def swapping(*words, **more):
        descriptor = opened(*words, **more)
        if os.path.exists(tmp_path / "decoy") and os.fstat(descriptor).st_ino == path.stat().st_ino:
            path.rename(tmp_path / "own")
            (tmp_path / "decoy").rename(path)
        return descriptor

    monkeypatch.setattr(os, "open", swapping)
    with pytest.raises(PicohookError, match="is not a record"):
        os.close(open_record(str(path)))
    assert (tmp_path / "own").read_text() == "precious"


async def test_a_recorder_is_for_one_host(path):
    recorder = Recorder(path)
    async with Host(listeners=[recorder]):
        pass
    with pytest.raises(PicohookError, match="for one host"):
        async with Host(listeners=[recorder]):
            raise AssertionError("it was entered")
    assert types(path) == ["record", "close"]


# It never holds up the host.


async def test_a_full_disk_is_logged_once_and_counted_and_changes_no_outcome(journal):
    recorder = Recorder("/dev/full", logger=journal)
    hooks = [FunctionHook("a", {"before_tool": deny})]
    async with Host(hooks, listeners=[recorder], logger=journal) as host:
        for _ in range(10):
            assert (await host.before_tool(ToolCall(tool="bash"))).action == "deny_tool"
    (said,) = journal.all("the record cannot be written, and ends here")
    assert (said["why"], said["path"]) == ("No space left on device", "/dev/full")
    assert recorder.lost == 1 + 10 * 4 + 1  # the header, the chains, the end
    assert journal.all("a listener failed") == []


async def test_a_reader_that_hangs_does_not_delay_the_host(path):
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    found = []

    def read():
        with open(reader, "rb") as file:
            found.extend(json.loads(line)["type"] for line in file)

    reading = threading.Thread(target=read)
    async with Host([FunctionHook("a", {"before_tool": deny})], listeners=[Recorder(path)]) as host:
        for _ in range(50):  # more than any pipe takes
            await host.before_tool(ToolCall(tool="bash", arguments={"text": "x" * 65536}))
        reading.start()
    reading.join()
    assert (found.count("end"), found[-1]) == (50, "close")


async def test_a_file_that_is_too_slow_is_given_up_before_memory_runs_out(path, journal, monkeypatch):
    monkeypatch.setattr("picohook.journal.writer.MAX_WAITING", 1 << 20)
    monkeypatch.setattr("picohook.journal.writer.CLOSE_TIMEOUT", 0.0)
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    recorder = Recorder(path, logger=journal)
    async with Host([FunctionHook("a", {"before_tool": deny})], listeners=[recorder]) as host:
        for _ in range(50):
            await host.before_tool(ToolCall(tool="bash", arguments={"text": "x" * 65536}))
    os.close(reader)
    (said,) = journal.all("the record cannot be written, and ends here")
    assert "faster than they can be written" in said["why"]
    assert recorder.lost > 0


def test_a_blocking_host_is_recorded_too(path):
    with Host.blocking([FunctionHook("a", {"before_tool": deny})], listeners=[Recorder(path)]) as host:
        assert host.ask("before_tool", {"tool": "bash"}).reason == "no bash"
    assert types(path) == ["record", "begin", "ask", "answer", "end", "close"]
