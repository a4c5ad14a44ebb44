"""The client of `picohook shim`, as the agent starts it: it refuses whatever goes wrong."""

from __future__ import annotations

import json
import os
import shlex
import struct
import subprocess
import sys

import pytest

from picohook.ext.vendors.alone import ask_host
from picohook.ext.vendors.shim import client
from picohook.process.environment import INHERITED

CALL = json.dumps({
    "session_id": "s",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_use_id": "t",
}).encode()  # fmt: skip


def done(text: bytes = b"{}") -> bytes:
    return b"picohook-shim 1 KEY\ndone %d\n%s" % (len(text), text)


def elsewhere(directory: object) -> bytes:
    place = str(directory).encode()
    return b"picohook-shim 1 KEY\nelsewhere %d\n%s" % (len(place), place)


def test_it_prints_what_the_host_answers(shim, fake_host):
    with fake_host(done(b'{"a":1}')):
        assert shim.ask(CALL) == (0, '{"a":1}', "")


@pytest.mark.parametrize(
    ("answer", "why"),
    {
        "nothing": (b"", "ended before it answered"),
        "another version": (done().replace(b"shim 1", b"shim 2"), "as this version"),
        "another configuration": (done().replace(b"KEY", b"0" * 32), "as this version"),
        "not to the end": (done()[:-1], "in the middle"),
        "more than it said": (done() + b"x", "in the middle"),
        "nonsense": (b"picohook-shim 1 KEY\n\xff\n", "in the middle"),
        "a refusal": (b"picohook-shim 1 KEY\nrefused 3\nwhy", "why"),
    }.values(),
    ids=lambda value: None,
)
def test_an_answer_that_is_not_one_is_a_denial(shim, fake_host, answer, why):
    with fake_host(answer):
        code, out, err = shim.ask(CALL)
    assert (code, out) == (2, "")
    assert why in err


WHY = 'picohook: it said "no"'
TOLD = json.dumps({"permissionDecision": "deny", "permissionDecisionReason": WHY}, separators=(",", ":"))
STOPPED = json.dumps({"continue": False, "stopReason": WHY, "decision": "block", "reason": WHY}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("on_failure", "code", "out"),
    [("deny", 2, ""), ("tell", 2, TOLD), ("stop", 0, STOPPED), ("pass", 1, "")],
)
def test_each_entry_names_the_effect_of_a_failure(shim, fake_host, on_failure, code, out):
    with fake_host(b'picohook-shim 1 KEY\nrefused 12\nit said "no"'):
        assert shim.ask(CALL, on_failure=on_failure) == (code, out, 'picohook: it said "no"\n')


def test_no_answer_in_time_is_a_denial(shim, fake_host):
    with fake_host(None):
        assert shim.ask(CALL, patience="0.2") == (2, "", "picohook: no answer in time\n")


def test_standard_input_that_never_ends_is_a_denial(shim):
    running = shim.start(patience="0.2")
    assert running.stdout is not None
    assert running.stdout.read() == b""
    assert running.wait() == 2
    for stream in (running.stdin, running.stdout, running.stderr):
        stream.close()


def test_an_event_that_is_too_large_is_a_denial(shim):
    code, _, err = shim.ask(b" " * (ask_host.MOST_BYTES_OF_EVENT + 1))
    assert (code, err) == (2, "picohook: the event has more than 64 MiB\n")


def test_a_command_line_that_lacks_words_is_a_denial_and_says_what_the_command_is_for(shim):
    command = [sys.executable, "-m", "picohook", "shim-client", "claude"]
    done = subprocess.run(
        command, env=shim.environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    said = "picohook: an agent runs this by its hook file: `picohook shim VENDOR` writes the entries\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_broken_command_line_is_a_denial(shim):
    done = subprocess.run(
        [sys.executable, "-I", "-S", client.__file__], capture_output=True, cwd=shim.project, check=False
    )
    assert done.returncode == 2


class TestOnlyTheUsersOwnHostIsAsked:
    def test_a_socket_that_others_can_open_is_a_denial(self, shim, fake_host):
        with fake_host(done(), mode=0o666):
            code, out, err = shim.ask(CALL)
        assert (code, out) == (2, "")
        assert "is not a socket that only this user can open" in err

    @pytest.mark.parametrize("kind", ["open", "link", "file"])
    def test_a_directory_that_others_can_enter_is_a_denial(self, shim, kind):
        if kind == "open":
            shim.sockets.mkdir()
            shim.sockets.chmod(0o755)
        elif kind == "link":
            (shim.project / "mine").mkdir(mode=0o700)
            shim.sockets.symlink_to(shim.project / "mine")
        else:
            shim.sockets.write_text("")
        code, out, err = shim.ask(CALL)
        assert (code, out) == (2, "")
        assert "is not a directory that only this user can open" in err

    @pytest.mark.parametrize("note", ["none", "another process", "another time", "of a link", "that others can write"])
    def test_A19_a_command_that_takes_the_place_of_the_host_gives_no_answer(self, shim, fake_host, note):
        own = ask_host.record_of(os.getpid())
        pid, began = own.split()
        with fake_host(done(), noted=False):
            if note != "none":
                record = {"another process": b"1 " + began, "another time": b"%s %d" % (pid, int(began) - 1)}.get(
                    note, own
                )
                path = shim.note(record, mode=0o666 if "others" in note else 0o600)
                if note == "of a link":
                    path.rename(shim.project / "note")
                    path.symlink_to(shim.project / "note")
            code, out, err = shim.ask(CALL)
        assert (code, out) == (2, "")
        assert f"process {os.getpid()} listens at" in err
        assert "it is not the host that picohook started: end it" in err

    def test_A19_a_host_that_a_sandbox_holds_cannot_note_itself_and_is_a_denial(self, shim):
        config = shim.project / "picohook.toml"
        config.write_text("[hooks.g]\nrun = 'true'\nstages = ['before_tool']\n")
        (shim.project / "file").write_text("")
        code, out, err = shim.ask(CALL, config=str(config), env={"XDG_CONFIG_HOME": str(shim.project / "file")})
        assert (code, out) == (2, "")
        assert "cannot be written: " in err
        assert "a sandbox holds" in err

    def test_a_file_in_place_of_the_socket_is_a_denial(self, shim):
        shim.sockets.mkdir(mode=0o700)
        (shim.sockets / shim.key()).write_text("")
        code, out, err = shim.ask(CALL)
        assert (code, out) == (2, "")
        assert "is not a socket" in err

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    @pytest.mark.parametrize("what", ["directory", "socket"])
    def test_what_belongs_to_another_user_is_a_denial(self, shim, fake_host, what):
        with fake_host(done()):
            os.chown(shim.sockets / (shim.key() if what == "socket" else ""), 12345, -1)
            code, out, err = shim.ask(CALL)
        assert (code, out) == (2, "")
        assert "only this user" in err


class TestTheProjectCannotReachIt:
    def test_its_modules_and_the_settings_of_python_are_ignored(self, shim, fake_host):
        for name in (
            "socket",
            "json",
            "os",
            "posix",
            "_socket",
            "_signal",
            "fcntl",
            "hashlib",
            "sitecustomize",
            "usercustomize",
        ):
            (shim.project / f"{name}.py").write_text("import sys\nprint('{}')\nsys.exit(0)\n")
        startup = str(shim.project / "json.py")
        paths = {"PYTHONPATH": str(shim.project), "PYTHONSTARTUP": startup, "PYTHONHOME": "", "PYTHONINSPECT": "1"}
        with fake_host(done(b'{"a":1}')):
            assert shim.ask(CALL, env=paths) == (0, '{"a":1}', "")

    def test_a_project_that_is_no_directory_is_a_denial(self, shim):
        code, _, err = shim.ask(CALL, env={"CLAUDE_PROJECT_DIR": str(shim.project / "gone")})
        assert code == 2
        assert "CLAUDE_PROJECT_DIR" in err

    def test_a_working_directory_that_is_gone_is_a_denial(self, shim):
        gone = shim.project / "gone"
        gone.mkdir()
        script = f"rmdir {gone}; exec {shlex.join(shim.command())}"
        done = subprocess.run(
            ["sh", "-c", script], cwd=gone, env=shim.environment, input=CALL, capture_output=True, check=False
        )
        assert done.returncode == 2

    def test_X12_only_the_vendors_that_name_their_project_can_move_it(self, shim, fake_host):
        with fake_host(done(b'{"a":1}')):
            assert shim.ask(CALL, cwd="/", env={"CLAUDE_PROJECT_DIR": str(shim.project)}) == (0, '{"a":1}', "")
        with fake_host(done(b'{"a":1}'), vendor="codex"):
            assert shim.ask(CALL, "codex", env={"CODEX_PROJECT_DIR": "/"}) == (0, '{"a":1}', "")

    def test_a_session_that_began_elsewhere_is_asked_about_there(self, shim, fake_host):
        other = shim.project / "other"
        other.mkdir()
        with (
            fake_host(done(b'{"a":1}')),
            fake_host(elsewhere(shim.project), project=other),
        ):
            assert shim.ask(CALL, cwd=other) == (0, '{"a":1}', "")


class SocketOfMacOS:
    """The end of a connection as unix(4) of macOS tells of it: level 0, a struct xucred, and the number of the process."""

    def __init__(self, user: int, process: int) -> None:
        self.told = {
            1: struct.pack("=IIh2x16I", 0, user, 1, 20, *[0] * 15),  # LOCAL_PEERCRED: version, user, groups
            2: struct.pack("=i", process),  # LOCAL_PEERPID
        }

    def getsockopt(self, level: int, name: int, size: int) -> bytes:
        assert level == 0
        return self.told[name][:size]


def test_on_macos_the_process_and_user_that_listen_are_read_as_the_system_tells_them(monkeypatch):
    monkeypatch.delattr(ask_host._socket, "SO_PEERCRED", raising=False)
    monkeypatch.setattr(ask_host._socket, "LOCAL_PEERCRED", 1, raising=False)
    assert ask_host._peer(SocketOfMacOS(os.geteuid(), 4711), "s") == 4711
    with pytest.raises(ask_host.Refusal, match="s belongs to the program of another user"):
        ask_host._peer(SocketOfMacOS(os.geteuid() + 1, 4711), "s")


def test_it_imports_nothing_that_takes_long(shim):
    code = (
        f"import sys; sys.path.insert(0, {os.path.dirname(ask_host.__file__)!r}); import ask_host; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert {"os", "socket", "signal", "json", "re", "enum", "site", "typing", "hashlib", "subprocess"}.isdisjoint(
        done.stdout.split()
    )


def test_the_variables_that_every_hook_gets_distinguish_hosts():
    assert {*ask_host.COUNTED} >= INHERITED - {"TERM"}
