"""What is written for a user goes to the file that was meant, whole, and to no file behind a link of a repository."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from picohook.wire import written_files
from picohook.wire.written_files import open_to_write, place, replaced


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = home / "work" / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.chdir(project)
    return project


def write(path: Path, text: str = "new", **where: object) -> None:
    with place(path, **where) as found:  # type: ignore[arg-type]
        found.replace(text.encode())


def append(path: Path, **where: object) -> None:
    os.close(open_to_write(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, **where))  # type: ignore[arg-type]


def link(path: Path, target: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


@pytest.mark.parametrize("opened", [write, append])
@pytest.mark.parametrize("target", ["settings.json", "missing"])
def test_X10_a_link_in_a_repository_is_not_followed(project: Path, home: Path, opened: object, target: str) -> None:
    (home / "settings.json").write_text("own")
    path = link(project / "record", home / target)
    with pytest.raises(OSError, match=rf"record is a link to .*{target}, and links in a project are not followed"):
        opened(path)  # type: ignore[operator]
    assert sorted(os.listdir(home)) == ["settings.json", "work"]
    assert (home / "settings.json").read_text() == "own"


@pytest.mark.parametrize("opened", [write, append])
def test_X10_a_directory_that_is_a_link_in_a_repository_is_not_followed(
    project: Path, home: Path, opened: object
) -> None:
    (home / ".ssh").mkdir()
    link(project / "logs" / "here", home / ".ssh")
    with pytest.raises(OSError, match="here is a link to"):
        opened(project / "logs" / "here" / "authorized_keys")  # type: ignore[operator]
    assert not os.listdir(home / ".ssh")


def test_X10_a_working_directory_without_git_is_a_project_too(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = tmp_path / "unpacked"
    link(unpacked / "record", home / "x")
    monkeypatch.chdir(unpacked)
    with pytest.raises(OSError, match="record is a link"):
        append(Path("record"))


def test_X10_the_outermost_repository_counts(project: Path, home: Path) -> None:
    inner = project / "vendored"
    link(inner / "a", home)
    (home / ".git").mkdir()
    with pytest.raises(OSError, match="a is a link"):
        append(inner / "a" / "x")


def test_X10_a_relative_home_makes_no_link_of_the_project_the_users(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = home / "target"
    target.write_text("old")
    link(project / "file", target)
    monkeypatch.setenv("HOME", ".")
    with pytest.raises(OSError, match="links in a project are not followed"):
        append(project / "file")
    assert target.read_text() == "old"


def test_links_of_the_user_are_followed(project: Path, home: Path) -> None:
    settings = home / "dotfiles" / "claude"
    settings.mkdir(parents=True)
    (home / "dotfiles" / ".git").mkdir()
    link(settings / "settings.json", home / "dotfiles" / "shared.json")
    link(home / ".claude", settings)
    write(home / ".claude" / "settings.json", own=True)
    assert (home / "dotfiles" / "shared.json").read_text() == "new"
    assert (settings / "settings.json").is_symlink()
    write(home / ".claude" / "other.json")
    assert (settings / "other.json").read_text() == "new"


def test_a_repository_of_the_home_directory_itself_has_links_of_the_user(home: Path) -> None:
    (home / ".git").mkdir()
    link(home / "logs", home / "disk")
    (home / "disk").mkdir()
    append(home / "logs" / "x")
    write(home / "logs" / "y")
    assert sorted(os.listdir(home / "disk")) == ["x", "y"]


def test_X10_a_file_has_to_lie_in_the_directory_that_is_named(project: Path, home: Path) -> None:
    for path in (project / ".." / "x", home / "x"):
        with pytest.raises(PermissionError, match=f"it lies outside of {project}"):
            append(path, below=project)
    with pytest.raises(IsADirectoryError):
        append(project, below=project)


def test_X10_a_directory_that_becomes_a_link_meanwhile_is_not_followed(home: Path, project: Path) -> None:
    (project / "a").mkdir()
    with place(project / "a" / "file") as found:
        (project / "a").rename(project / "b")
        link(project / "a", home)
        found.replace(b"new")
    assert (project / "b" / "file").read_bytes() == b"new"
    assert not (home / "file").exists()


def test_directories_are_made_only_if_asked(project: Path) -> None:
    path = project / "a" / "b" / "c"
    with pytest.raises(FileNotFoundError):
        write(path)
    write(path, make=0o700)
    assert path.read_text() == "new"
    assert (project / "a").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mask", [0, 0o077])
def test_a_new_file_has_the_mode_of_the_umask_and_is_never_open_to_all(project: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write(project / "open")
        with place(project / "closed") as found:
            found.replace(b"", mode=0o600)
    finally:
        os.umask(before)
    assert (project / "open").stat().st_mode & 0o777 == 0o644 & ~mask
    assert (project / "closed").stat().st_mode & 0o777 == 0o600


def test_a_file_keeps_its_mode(project: Path) -> None:
    path = project / "file"
    path.write_text("old")
    path.chmod(0o640)
    write(path)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_X11_a_pipe_or_a_directory_is_neither_read_nor_replaced(project: Path, kind: str) -> None:
    path = project / "x"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with place(path) as found:
        for use in (found.read, lambda: found.replace(b"new")):
            with pytest.raises(OSError, match="not a"):
                use()  # type: ignore[operator]
    assert os.listdir(project) == [".git", "x"] or os.listdir(project) == ["x", ".git"]


@pytest.mark.parametrize("change", ["replaced", "written", "removed", "made"])
def test_X11_a_file_that_changes_between_reading_and_writing_is_left(project: Path, change: str) -> None:
    path = project / "file"
    if change != "made":
        path.write_text("first")
    with place(path) as found:
        assert found.read() == (None if change == "made" else b"first")
        if change == "removed":
            path.unlink()
        elif change == "replaced":
            (project / "other").write_text("first")
            (project / "other").rename(path)
        else:
            path.write_text("second")
        for use in (lambda: found.replace(b"new"), found.remove):
            with pytest.raises(OSError, match="it changed after it was read: try again"):
                use()
    assert path.exists() is (change != "removed")
    assert {*os.listdir(project)} - {"file"} == {".git"}


def test_an_edit_after_an_edit_is_one_of_the_same_file(project: Path) -> None:
    path = project / "file"
    with place(path) as found:
        found.read()
        found.replace(b"1")
        found.replace(b"2")
        found.read()
        found.remove()
    assert not path.exists()


def test_another_name_of_a_file_keeps_its_content(project: Path, home: Path) -> None:
    (home / "own").write_text("own")
    os.link(home / "own", project / "file")
    write(project / "file")
    assert (home / "own").read_text() == "own"


def test_a_name_as_long_as_names_can_be(project: Path) -> None:
    write(project / ("x" * 255))
    write(project / ("y" * 200 + "/" + "z" * 255), make=0o700)
    with pytest.raises(OSError, match="too long"):
        write(project / ("x" * 256))


def test_names_that_no_file_has(project: Path) -> None:
    for use in (write, append):
        with pytest.raises(OSError, match="NUL character"):
            use(project / "a\0b")  # type: ignore[operator]
        with pytest.raises(OSError, match="directory"):
            use(Path("/"))  # type: ignore[operator]


def test_X11_two_writers_in_one_directory_wait_for_each_other(project: Path) -> None:
    path = project / "count"
    path.write_text("0")

    def count() -> None:
        for _ in range(50):
            with place(path) as found:
                found.replace(str(int(found.read() or b"") + 1).encode())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "200"


def test_a_directory_that_another_program_keeps_locked_is_an_error(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_files, "LOCK_WAIT", 0.0)
    other = os.open(project, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="another program keeps its directory locked"):
            write(project / "x")
    finally:
        os.close(other)


def test_a_file_system_without_locks_is_written_to(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    write(project / "x")
    assert (project / "x").read_text() == "new"


def test_X10_it_holds_where_directories_cannot_be_opened_for_their_path_alone(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_files, "_PATH_ONLY", os.O_RDONLY)
    write(project / "a" / "b", make=0o700)
    link(project / "logs", home)
    for opened in (write, append):
        with pytest.raises(OSError, match="logs is a link"):
            opened(project / "logs" / "x")
    assert (project / "a" / "b").read_text() == "new"


def test_X11_a_full_disk_leaves_the_file_as_it_is_and_nothing_beside_it(project: Path) -> None:
    path = project / "file"
    path.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2, hard))  # no file may have more bytes
    try:
        with pytest.raises(OSError, match="File too large"):
            write(path, "much more")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "old"
    assert sorted(os.listdir(project)) == [".git", "file"]


def test_a_file_that_is_written_bit_by_bit_replaces_the_old_one_only_at_the_end(project: Path) -> None:
    path = project / "file"
    path.write_text("old")
    with contextlib.suppress(KeyboardInterrupt), replaced(path, mode=0o600) as file:
        file.write(b"x" * 100_000)
        raise KeyboardInterrupt
    assert (path.read_text(), sorted(os.listdir(project))) == ("old", [".git", "file"])
    with replaced(path, mode=0o600) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)


def test_a_pipe_is_written_to_and_not_replaced(project: Path) -> None:
    path = project / "pipe"
    os.mkfifo(path)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        with replaced(path, mode=0o600) as file:
            file.write(b"new")
        assert reader.read() == b"new"


def test_X11_a_writer_that_is_killed_leaves_the_file_whole_and_the_next_one_writes(project: Path) -> None:
    path = project / "file"
    path.write_text("old")
    killed = "import os, signal, sys\nfrom picohook.wire.written_files import place\n"
    killed += "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
    killed += "with place(sys.argv[1]) as found:\n    found.replace(b'new')\n"
    done = subprocess.run([sys.executable, "-c", killed, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    write(path)
    assert path.read_text() == "new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_of_another_user_stays_theirs(project: Path) -> None:
    path = project / "file"
    path.write_text("old")
    os.chown(path, 1234, 2345)
    path.chmod(0o640)
    write(path)
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (1234, 2345, 0o640)


def test_a_working_directory_that_was_removed(project: Path, home: Path) -> None:
    (project / "gone").mkdir()
    os.chdir(project / "gone")
    (project / "gone").rmdir()
    write(home / "file")
    with pytest.raises(FileNotFoundError):
        write(Path("file"))
