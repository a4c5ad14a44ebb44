"""Starting a process: what can go wrong, and that it is said."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import sys
import textwrap

import anyio
import needs
import pytest
from scripted import HANG, SERVE, command, descriptors, scripted

from picohook import HookSpec, Host, Log, RestartPolicy, Timeouts, ToolCall
from picohook.hooks import process as supervisor
from picohook.process.child import Child
from picohook.process.plan import Plan
from picohook.process.spawn import ProcessServices
from picohook.transport.event_loop import current_reactor

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash", arguments={"command": "ls"})
ONCE = RestartPolicy(max_starts=1)
FAR = Timeouts(interceptor=60, approval=60, hello=60)


def only(host: Host):
    (status,) = host.status().hooks
    return status


def script(path, text, mode=0o755):
    path.write_bytes(text.encode())
    path.chmod(mode)
    return str(path)


async def test_a_hook_is_started_says_hello_and_serves(journal):
    async with Host([scripted("good")], timeouts=FAR, logger=journal) as host:
        assert (await host.before_tool(CALL)).trail[0].error is None
        assert only(host).state == "ready"
        assert only(host).starts == 1
    assert only(host).state == "stopped"
    assert only(host).pid is None


PERMANENT = {
    "S1_missing_command": (("picohook-no-such-program",), "the command 'picohook-no-such-program' is not on the PATH"),
    "S1_missing_file": (("./nothing",), "{dir}/./nothing does not exist"),
    "S1_not_executable": (("./plain",), "./plain is not executable: chmod +x it"),
    "S1_directory": (("./folder",), "./folder is a directory"),
    "S1_no_shebang": (("./words",), "no #! line"),
    "S2_bad_shebang": (("./bad",), "./bad names the interpreter '/no/such/python', which does not exist"),
    "S2_empty_shebang": (("./empty",), "./empty names the interpreter 'nothing'"),
    "S2_crlf_shebang": (("./crlf",), "the first line of {dir}/./crlf ends in CRLF: save it with Unix line ends"),
    "S3_oversize_argument": ((sys.executable, "x" * 3_000_000), "its arguments and environment are too long"),
    "S3_lone_surrogate": ((sys.executable, "\ud800"), "surrogates not allowed"),
    "no_command": ((), "it has no command"),
}


@pytest.mark.parametrize("case", PERMANENT)
async def test_S1_S2_S3_a_program_that_cannot_be_started_fails_at_once_for_good_and_says_why(case, tmp_path, journal):
    script(tmp_path / "plain", "#!/bin/sh\n", 0o644)
    script(tmp_path / "bad", "#!/no/such/python -u\n")
    script(tmp_path / "empty", "#! \n")
    script(tmp_path / "crlf", "#!/bin/sh\r\nexit 0\r\n")
    script(tmp_path / "words", "just some words\n")
    (tmp_path / "folder").mkdir()
    command, why = PERMANENT[case]
    spec = HookSpec.model_construct(**{**scripted("broken").__dict__, "command": command, "dir": str(tmp_path)})
    before = descriptors()
    async with Host([spec, scripted("good")], timeouts=FAR, logger=journal) as host:
        outcome = await host.before_tool(CALL)
        broken, good = host.status().hooks
        assert broken.state == "failed"
        assert broken.starts == 0
        assert why.format(dir=tmp_path) in broken.last_error
        assert [entry.error is None for entry in outcome.trail] == [False, True]
        assert why.format(dir=tmp_path)[:200] in outcome.trail[0].error
        assert good.state == "ready"
        assert len(journal.all("failed: it is not started again until it is reset", hook="broken")) == 1
        assert not journal.all("ready", hook="broken")
    assert descriptors() == before


async def test_S2_a_missing_directory_is_named_and_not_taken_for_a_missing_program(tmp_path):
    async with Host([scripted("lost", dir=str(tmp_path / "gone"))], timeouts=FAR) as host:
        assert only(host).state == "failed"
        assert f"its directory {tmp_path / 'gone'} does not exist" in only(host).last_error


def test_S3_a_nul_in_an_argument_is_refused_before_anything_is_started():
    with pytest.raises(ValueError, match="NUL"):
        HookSpec(name="nul", command=("python3", "a\0b"))


async def test_a_permanent_failure_can_be_mended_and_reset(tmp_path, journal):
    path = tmp_path / "late"
    spec = HookSpec(name="late", command=(str(path),), stages=("before_tool",))
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        assert only(host).state == "failed"
        script(path, f"#!/bin/sh\nexec {shlex.join(command(SERVE))}\n")
        host.reset("late")
        await journal.seen("ready")
        assert (await host.before_tool(CALL)).trail[0].error is None


async def test_a_start_that_breaks_in_an_unforeseen_way_is_a_failure_that_can_be_reset(journal):
    broken = [True]

    def verify(spec: HookSpec) -> None:
        if broken[0]:
            raise ZeroDivisionError("no reason at all")

    async with Host([scripted("odd")], timeouts=FAR, logger=journal, verify=verify) as host:
        assert only(host).state == "failed"
        assert "no reason at all" in only(host).last_error
        broken[0] = False
        host.reset("odd")
        await journal.seen("ready")
        assert (await host.before_tool(CALL)).trail[0].error is None


async def test_a_working_directory_that_is_gone_is_a_failure_and_no_more(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    spec = HookSpec(name="homeless", command=("./hook",), stages=("before_tool",))
    async with Host([spec, scripted("good")], timeouts=FAR) as host:
        homeless, good = host.status().hooks
        assert homeless.state == "failed"
        assert "the host's working directory is gone" in homeless.last_error
        assert good.state == "ready"
        host.reset("homeless")
        errors = {entry.hook: entry.error for entry in (await host.before_tool(CALL)).trail}
        assert errors["good"] is None
        assert errors["homeless"] is not None


EARLY_EXIT = ["say", "boom: no licence"], ["exit", 3]


async def test_S4_an_exit_during_hello_fails_at_once_with_the_exit_code_and_the_end_of_stderr():
    spec = scripted("early", ["read"], *EARLY_EXIT, restart=RestartPolicy(max_starts=1))
    async with Host([spec], timeouts=FAR) as host:
        assert only(host).state == "failed"
        assert "it exited with code 3; it said: boom: no licence" in only(host).last_error


async def test_S4_an_exit_that_is_seen_late_is_still_an_exit(monkeypatch):
    monkeypatch.setattr(supervisor, "EXIT_WAIT", 0)
    spec = scripted("early", ["read"], *EARLY_EXIT, restart=RestartPolicy(max_starts=1))
    async with Host([spec], timeouts=FAR) as host:
        assert "it exited with code 3; it said: boom: no licence" in only(host).last_error


async def test_S4_the_end_of_stderr_fits_on_the_line_that_the_trail_shows():
    lines = [["say", f"line {number} of a long story"] for number in range(60)]
    spec = scripted("chatty", ["read"], *lines, *EARLY_EXIT, restart=RestartPolicy(max_starts=1))
    async with Host([spec], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
        assert "boom: no licence" in outcome.trail[0].error
        assert "line 59 of a long story" in outcome.trail[0].error
        assert "line 0 of" not in outcome.trail[0].error


async def test_S5_a_hello_that_is_not_answered_ends_in_a_kill_and_asks_about_flushing(journal):
    spec = scripted("mute", HANG, hello_timeout=0.1, grace=0.1, restart=RestartPolicy(max_starts=1))
    async with Host([spec], logger=journal) as host:
        await journal.seen("failed: it is not started again until it is reset")
        assert host._mounted.by_name["mute"].hook._child.exit_code == -signal.SIGTERM
        assert "hook.hello was not answered in time; it wrote nothing at all" in only(host).last_error
        assert "flush" in only(host).last_error


async def test_S5_a_hook_that_wrote_something_else_is_not_asked_about_flushing(journal):
    # A shell, and not our own hook: it is there at once, long before the deadline.
    command = ("/bin/sh", "-c", "echo good morning; exec sleep 1000")
    spec = HookSpec(name="rambler", command=command, stages=("before_tool",), hello_timeout=0.2, restart=ONCE)
    async with Host([spec], logger=journal) as host:
        assert "not answered in time; it wrote other things" in only(host).last_error


async def test_S6_noise_before_hello_is_dropped_and_shown_escaped(journal):
    noise = "Loading\x1b[31m model\u202e...\n"
    async with Host([scripted("noisy", ["write", noise], SERVE)], timeouts=FAR, logger=journal) as host:
        assert only(host).state == "ready"
        assert only(host).dropped_lines == 1
        (record,) = journal.all("dropped a line")
        assert record["line"] == "Loading\\x1b[31m model\\u202e..."


REFUSALS = {
    "says_no": (["hello", {"ok": False, "reason": "wrong moon"}], "it says no: wrong moon"),
    "other_version": (["hello", {"version": 2}], "it speaks version 2, and this host speaks 1"),
    "error": (["error", -32000, "not today"], "hook.hello was answered with an error: not today"),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_S7_a_refused_hello_is_a_failure_that_shows_the_reason(case):
    step, why = REFUSALS[case]
    steps = [step] if step[0] == "hello" else [["read"], step]
    async with Host([scripted("no", *steps, SERVE, restart=RestartPolicy(max_starts=1))], timeouts=FAR) as host:
        assert only(host).state == "failed"
        assert why in only(host).last_error


def fill_up(spare):
    taken = []
    while True:
        try:
            taken.append(os.dup(0))
        except OSError:
            break
    for _ in range(spare):
        os.close(taken.pop())
    return taken


async def test_S8_out_of_descriptors_the_start_is_put_off_and_the_other_hooks_serve(journal):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with Host([scripted("first")], timeouts=FAR, logger=journal) as host:
        await host.before_tool(CALL)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 20, hard))
            ballast = fill_up(spare=5)
            await host.mount(scripted("second", stages=("after_tool",), restart=RestartPolicy(max_starts=2)))
            before = descriptors()
            assert host.status().hooks[1].state == "restarting"
            assert "Too many open files" in host.status().hooks[1].last_error
            await journal.seen("ended", hook="second", times=4)  # more often than it may be started
            assert descriptors() == before
            assert host.status().hooks[1].starts == 0
            assert (await host.before_tool(CALL)).trail[0].error is None
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for fd in ballast:
                os.close(fd)
        host.reset("second")
        await journal.seen("ready", hook="second")


async def test_S12_S11_a_hook_that_cannot_start_delays_neither_the_others_nor_a_call():
    bad = HookSpec(name="bad", command=("./nothing",), stages=("before_tool", "approve_tool"))
    async with Host([bad, scripted("good", stages=("before_tool", "approve_tool"))], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
        assert [entry.error is None for entry in outcome.trail] == [False, True]
        # S11: the approver that is not there is no yes.
        approval = await host.approve_tool(CALL)
        assert not approval.approved
        assert "hook bad failed: it was given up: cannot be started" in approval.reason


async def test_S11_an_approver_that_is_still_starting_at_the_deadline_denies(board):
    slow = scripted("slow", board.call("slow"), ["wait"], SERVE, stages=("approve_tool",), approval_timeout=0.05)
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, slow)
        line = await board.line("slow")
        approval = await host.approve_tool(CALL)
        assert not approval.approved
        assert "it is starting, and was not ready in time" in approval.reason
        line.go_on()


async def test_a_call_waits_for_a_hook_that_is_still_starting(board):
    slow = scripted("slow", board.call("slow"), ["wait"], SERVE, stages=("approve_tool",))
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, slow)
        line = await board.line("slow")
        line.go_on()
        assert (await host.approve_tool(CALL)).approved


async def test_a_call_in_the_very_moment_of_mounting_waits_too():
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        outcomes = []

        async def ask():
            outcomes.append(await host.before_tool(CALL))

        for _ in range(5):
            tasks.start_soon(ask)
        tasks.start_soon(host.mount, scripted("new"))
        for _ in range(5):
            tasks.start_soon(ask)
    assert {entry.error for outcome in outcomes for entry in outcome.trail} <= {None}


async def test_X1_the_environment_has_an_allowlist_and_the_hooks_own_variables(board, monkeypatch):
    for name in list(os.environ):
        monkeypatch.delenv(name)
    given = {"PATH": "/usr/bin:/bin", "HOME": "/home/x", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "TZ": "UTC"}
    hidden = {"API_KEY": "secret", "LD_PRELOAD": "", "PYTHONPATH": "/x", "LCX": "no", "AWS_SECRET": "no"}
    for name, value in (given | hidden).items():
        monkeypatch.setenv(name, value)
    tell = ["tell_environment"], SERVE
    hooks = [
        scripted("default", board.call("default"), *tell, env={"OWN": "1", "LANG": "de_DE"}),
        scripted("named", board.call("named"), *tell, inherit_env=("API_KEY", "NOT_THERE")),
        scripted("all", board.call("all"), *tell, inherit_env=True),
    ]
    async with Host(hooks, timeouts=FAR):
        seen = {name: json.loads(await (await board.line(name)).said()) for name in ("default", "named", "all")}
    assert seen["default"] == given | {"OWN": "1", "LANG": "de_DE"}
    assert seen["named"] == given | {"API_KEY": "secret"}
    assert seen["all"] == given | hidden


async def test_X7_the_program_is_found_on_the_hosts_path_and_not_on_the_hooks(tmp_path, monkeypatch, journal):
    for place in ("host", "hook"):
        (tmp_path / place).mkdir()
        text = f"""\
            #!/bin/sh
            exec {shlex.join(command(["say", place], SERVE))}
            """
        script(tmp_path / place / "thehook", textwrap.dedent(text))
    monkeypatch.setenv("PATH", f"{tmp_path / 'host'}:/usr/bin:/bin")
    spec = HookSpec(
        name="x",
        command=("thehook",),
        stages=("before_tool",),
        env={"PATH": str(tmp_path / "hook")},
        dir=str(tmp_path / "hook"),
    )
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        await journal.seen("stderr", line="host")
        assert only(host).state == "ready"


async def test_P18_a_hook_has_the_three_standard_descriptors_and_no_other(board):
    leaky, other = os.pipe()
    os.set_inheritable(leaky, True)
    hooks = [scripted(name, board.call(name), ["tell_descriptors"], SERVE) for name in ("one", "two")]
    try:
        async with Host(hooks, timeouts=FAR):
            for name in ("one", "two"):
                assert json.loads(await (await board.line(name)).said()) == [0, 1, 2]
    finally:
        os.close(leaky)
        os.close(other)


@needs.other_rooms
async def test_a_hook_has_default_signal_handling_even_if_its_host_ignores_or_blocks_signals(board):
    names = ("SIGINT", "SIGQUIT", "SIGUSR2")
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN), signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    try:
        async with Host([scripted("plain", board.call("plain"), ["tell_signals", *names], SERVE)], timeouts=FAR):
            told = json.loads(await (await board.line("plain")).said())
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])
        signal.signal(signal.SIGQUIT, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert told == [[False] * 3, [False] * 3]


@pytest.mark.parametrize("session", ["own", "shared"])
async def test_a_hook_leads_a_process_group_in_its_directory_and_a_session_where_it_has_its_own(
    session, board, tmp_path
):
    spec = scripted("leader", board.call("leader"), ["tell_session"], SERVE, dir=str(tmp_path), session=session)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("leader")
        pid, _, group, cwd = json.loads(await line.said())
        assert pid == group  # its number in its own namespace
        assert line.pid == only(host).pid != os.getpid()
        is_shared = session == "shared" and only(host).containment != "group"
        assert os.getsid(line.pid) == (os.getsid(0) if is_shared else line.pid)
        assert cwd == str(tmp_path)


async def test_a_hook_sees_its_name_its_modes_and_the_version_in_hello(tmp_path):
    record = tmp_path / "record"
    spec = scripted("polite", ["record", str(record)], SERVE, stages=("before_llm", "approve_tool"), observe=("*",))
    async with Host([spec], timeouts=FAR):
        pass
    first = json.loads(record.read_text().splitlines()[0])["line"]
    assert first == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "hook.hello",
        "params": {"name": "polite", "version": 1, "modes": ["observe", "llm", "approve"]},
    }


async def test_nothing_is_sent_before_hello_is_answered(board, journal, tmp_path):
    record = tmp_path / "record"
    steps = (
        ["record", str(record)],
        board.call("slow"),
        ["read"],
        ["tell", "hello"],
        ["wait"],
        ["reply", {"ok": True}],
        SERVE,
    )
    async with Host(timeouts=FAR, logger=journal) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, scripted("slow", *steps, observe=("*",), stages=("before_tool",)))
        line = await board.line("slow")
        await line.said()
        tasks.start_soon(host.before_tool, CALL)
        host.emit("turn_start")
        await anyio.wait_all_tasks_blocked()
        line.go_on()
        await journal.seen("ready")
        await host.before_tool(CALL)
    ways = [(seen["way"], seen["line"].get("method")) for seen in map(json.loads, record.read_text().splitlines())]
    assert ways[:3] == [("in", "hook.hello"), ("out", None), ("in", "hook.before_tool")]


class Late:
    """Starts nothing in time."""

    async def spawn(self, plan, streams, deadline):
        raise TimeoutError


async def test_a_system_that_starts_no_process_in_time_is_a_time_out_that_leaves_nothing_open():
    host = ProcessServices(current_reactor(), Log(), Timeouts(), Late())
    before = descriptors()
    with pytest.raises(TimeoutError):
        await Child.start(host, Plan(("/bin/true",), {}, None), deadline=0.0, name="h", on_exit=list)
    assert descriptors() == before
