"""A file that decides what runs is read only where nobody else could have written it."""

from __future__ import annotations

import grp
import os
import pwd
from typing import TYPE_CHECKING

import pytest

from picohook.config import load
from picohook.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from config_files import Write

TEXT = '[hooks.a]\ncommand = ["a"]\nobserve = ["*"]\n'
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def complaint(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path)
    (problem,) = caught.value.problems
    return str(problem).removeprefix(f"{path}: ")


def test_no_file(tmp_path: Path) -> None:
    assert complaint(tmp_path / "a.toml") == "there is no such file"


def test_a_files_name_is_shown_without_control_characters(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"/a\\x1b\[2J\.toml: there is no such file") as caught:
        load(tmp_path / "a\x1b[2J.toml")
    assert str(caught.value).isprintable()


def test_a_directory(tmp_path: Path) -> None:
    assert complaint(tmp_path) == "is a directory, not a file"


def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.toml")
    assert complaint(tmp_path / "a.toml") == "is not a regular file"


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "a.toml").symlink_to(tmp_path / "a.toml")
    assert complaint(tmp_path / "a.toml") == "cannot be read: Too many levels of symbolic links"


def test_a_file_that_may_not_be_read(write: Write) -> None:
    path = write("a.toml", TEXT)
    path.chmod(0)
    user = os.geteuid()
    os.seteuid(user or NOBODY)  # root reads everything
    try:
        assert complaint(path) == "cannot be read: Permission denied"
    finally:
        os.seteuid(user)


def test_a_name_with_a_nul_character() -> None:
    with pytest.raises(ConfigError, match="its name holds a NUL character"):
        load("a\0.toml")


def test_X8_a_file_that_everyone_can_write_is_refused(write: Write) -> None:
    path = write("a.toml", TEXT)
    path.chmod(0o666)
    assert complaint(path) == "can be written by everyone, who could make it run anything (chmod o-w)"


def test_X8_a_link_does_not_hide_that_others_can_write_the_file(write: Write, tmp_path: Path) -> None:
    write("real.toml", TEXT).chmod(0o666)
    (tmp_path / "a.toml").symlink_to(tmp_path / "real.toml")
    assert "can be written by everyone" in complaint(tmp_path / "a.toml")


@as_root
def test_X8_a_file_that_belongs_to_another_user_is_refused(write: Write) -> None:
    path = write("a.toml", TEXT)
    os.chown(path, 4321, 0)
    assert complaint(path) == "belongs to another user (uid 4321), who could make it run anything (chown it)"


@as_root
def test_owned_by_root_and_read_by_a_user(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.toml", TEXT)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert load(path).hooks


@as_root
def test_X8_a_file_that_a_whole_group_can_write_is_refused(write: Write) -> None:
    path = write("a.toml", TEXT)
    os.chown(path, 0, 4321)
    path.chmod(0o664)
    assert complaint(path) == "can be written by a whole group (gid 4321) (chmod g-w)"


def test_X8_a_file_that_the_users_private_group_can_write_is_read(write: Write) -> None:
    me = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(me.pw_gid)
    if group.gr_name != me.pw_name or set(group.gr_mem) - {me.pw_name}:
        pytest.skip("this user has no group of their own")
    path = write("a.toml", TEXT)
    os.chown(path, -1, me.pw_gid)
    path.chmod(0o664)
    assert load(path).hooks


def test_a_file_without_write_permissions_is_fine(write: Write) -> None:
    path = write("a.toml", TEXT)
    path.chmod(0o444)
    assert load(path).hooks
