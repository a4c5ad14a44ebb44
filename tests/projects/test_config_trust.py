"""What was found in a directory runs only after somebody said yes, to just that."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from picohook.config import load
from picohook.errors import ConfigError, TrustError
from picohook.projects.trust import covered, require_trust, still_trusted, trust, untrust

if TYPE_CHECKING:
    from pathlib import Path

    from config_files import Write

    from picohook.config import Config

TEXT = """
    [hooks.gate]
    command = ["python3", "gate.py", "--strict"]
    stages = ["before_tool"]
    [hooks.log]
    command = ["./log.sh"]
    observe = ["*"]
    dir = "/"
    """
NEVER = "was found here and is not trusted yet (read it and the programs it names, then: picohook trust)"
CHANGED = "changed since it was trusted (read what changed, then: picohook trust)"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Path:
    return home / "picohook" / "trust.json"


@pytest.fixture
def path(write: Write) -> Path:
    write("project/gate.py", "print('gate')")
    write("project/log.sh", "echo log")
    return write("project/picohook.toml", TEXT)


def found(path: Path) -> Config:
    return load(path, found=True)


def refusals(config: Config) -> list[str]:
    with pytest.raises(TrustError) as caught:
        require_trust(config)
    return str(caught.value).splitlines()


def test_X3_a_configuration_that_was_found_is_not_trusted(path: Path) -> None:
    assert refusals(found(path)) == [f"{path}: {NEVER}"]


def test_X3_a_named_file_needs_no_trust(path: Path) -> None:
    config = load(path)
    require_trust(config)
    (path.parent / "gate.py").write_text("print('something else')")
    still_trusted(config, config.hooks[0])


def test_trusted_once_is_trusted_until_something_changes(path: Path) -> None:
    trust(found(path))
    config = found(path)
    require_trust(config)
    for spec in config.hooks:
        still_trusted(config, spec)


def test_trust_is_kept_for_others_of_the_users_projects(write: Write, path: Path) -> None:
    other = write("other/picohook.toml", TEXT)
    trust(found(path))
    trust(found(other))
    require_trust(found(path))
    require_trust(found(other))


def test_X3_trust_can_be_taken_back(path: Path) -> None:
    trust(found(path))
    assert untrust(path)
    assert refusals(found(path)) == [f"{path}: {NEVER}"]
    assert not untrust(path)


def test_a_config_that_is_gone_can_be_untrusted(path: Path) -> None:
    trust(found(path))
    path.unlink()
    assert untrust(path)


@pytest.mark.parametrize("name", ["picohook.toml", "gate.py", "log.sh"])
def test_X4_changed_bytes_are_asked_about_again_by_name(path: Path, name: str) -> None:
    trust(found(path))
    changed = path.parent / name
    changed.write_text(changed.read_text() + "\n# more")
    assert refusals(found(path)) == [f"{changed}: {CHANGED}"]
    trust(found(path))
    require_trust(found(path))


def test_the_files_that_trust_covers_can_be_listed(path: Path) -> None:
    assert covered(found(path)) == (str(path), f"{path.parent}/gate.py", f"{path.parent}/log.sh")


def test_X4_every_changed_file_is_named(path: Path) -> None:
    trust(found(path))
    for name in ("gate.py", "log.sh"):
        (path.parent / name).write_text("changed")
    assert refusals(found(path)) == [f"{path.parent / name}: {CHANGED}" for name in ("gate.py", "log.sh")]


def test_X4_a_script_that_appears_is_asked_about(path: Path) -> None:
    (path.parent / "gate.py").unlink()
    trust(found(path))
    (path.parent / "gate.py").write_text("print('new')")
    (refusal,) = refusals(found(path))
    assert refusal.startswith(f"{path.parent}/gate.py: is run now, and was not when this was trusted")


def test_X4_a_script_that_is_gone_is_asked_about(path: Path) -> None:
    trust(found(path))
    (path.parent / "gate.py").unlink()
    (refusal,) = refusals(found(path))
    assert refusal.startswith(f"{path.parent}/gate.py: is gone since it was trusted")


def test_X6_a_link_turned_to_another_script_is_asked_about(write: Write, path: Path, tmp_path: Path) -> None:
    write("outside/good.py", "print('gate')")
    write("outside/bad.py", "print('bad')")
    script = path.parent / "gate.py"
    script.unlink()
    script.symlink_to(tmp_path / "outside/good.py")
    trust(found(path))
    require_trust(found(path))

    script.unlink()
    script.symlink_to(tmp_path / "outside/bad.py")
    assert refusals(found(path)) == [f"{script}: {CHANGED}"]


def test_X6_the_bytes_behind_a_link_count(write: Write, path: Path) -> None:
    target = write("outside/good.py", "print('gate')")
    (path.parent / "gate.py").unlink()
    (path.parent / "gate.py").symlink_to(target)
    trust(found(path))
    target.write_text("print('bad')")
    assert refusals(found(path)) == [f"{path.parent / 'gate.py'}: {CHANGED}"]


def test_the_same_bytes_in_another_directory_are_asked_about(write: Write, path: Path, tmp_path: Path) -> None:
    for place in ("a", "b"):
        write(f"{place}/gate.py", "import neighbour")
    script = path.parent / "gate.py"
    script.unlink()
    script.symlink_to(tmp_path / "a/gate.py")
    trust(found(path))
    script.unlink()
    script.symlink_to(tmp_path / "b/gate.py")
    assert refusals(found(path)) == [f"{script}: {CHANGED}"]


def test_X6_a_linked_config_counts_by_its_real_bytes(write: Write, path: Path) -> None:
    shared = write("shared/picohook.toml", TEXT)
    path.unlink()
    path.symlink_to(shared)
    trust(found(path))
    require_trust(found(path))
    shared.write_text(shared.read_text().replace("--strict", "--lax"))
    assert refusals(found(path)) == [f"{path}: {CHANGED}"]


def test_trust_in_a_shared_config_is_for_one_project(write: Write, path: Path, tmp_path: Path) -> None:
    trust(found(path))
    other = tmp_path / "other" / "picohook.toml"
    write("other/gate.py", "print('bad')")
    other.symlink_to(path)
    assert refusals(found(other)) == [f"{other}: {NEVER}"]


def test_a_project_reached_by_a_link_is_the_same_project(path: Path, tmp_path: Path) -> None:
    trust(found(path))
    (tmp_path / "link").symlink_to(path.parent)
    require_trust(found(tmp_path / "link" / "picohook.toml"))


def test_a_script_outside_the_project_is_not_the_projects(write: Write) -> None:
    script = write("outside/gate.py", "print('gate')")
    path = write("project/picohook.toml", f'[hooks.a]\ncommand = ["python3", "{script}"]\nobserve = ["*"]\n')
    trust(found(path))
    script.write_text("print('changed')")
    require_trust(found(path))


def test_arguments_are_looked_up_where_the_hook_runs(write: Write) -> None:
    text = '[hooks.a]\ncommand = ["python3", "gate.py"]\nobserve = ["*"]\ndir = "sub"\n'
    path = write("project/picohook.toml", text)
    elsewhere = write("project/gate.py", "1")
    here = write("project/sub/gate.py", "1")
    trust(found(path))
    elsewhere.write_text("2")
    require_trust(found(path))
    here.write_text("2")
    assert refusals(found(path)) == [f"{here}: {CHANGED}"]


def test_files_that_a_shell_command_writes_are_not_covered(write: Write) -> None:
    text = "[hooks.a]\nrun = 'sh check.sh < in > out 2>>err && sh more.sh'\nstages = [\"before_tool\"]\n"
    path = write("project/picohook.toml", text)
    for name in ("check.sh", "more.sh", "in"):
        write(f"project/{name}", "1")
    trust(found(path))
    assert covered(found(path)) == tuple(str(path.parent / n) for n in ("picohook.toml", "check.sh", "in", "more.sh"))
    write("project/out", "written")
    write("project/err", "written")
    require_trust(found(path))
    write("project/more.sh", "2")
    assert refusals(found(path)) == [f"{path.parent}/more.sh: {CHANGED}"]


def test_trust_covers_the_bytes_that_were_read_even_if_the_file_changes_meanwhile(path: Path) -> None:
    config = found(path)
    path.write_text(path.read_text() + "\n# more")
    trust(config)
    require_trust(config)
    assert refusals(found(path)) == [f"{path}: {CHANGED}"]


class TestAtEverySpawn:
    def test_X4_a_changed_script_stops_its_own_hook_only(self, path: Path) -> None:
        config = found(path)
        trust(config)
        gate, log = config.hooks
        (path.parent / "gate.py").write_text("changed")
        with pytest.raises(TrustError, match=re.escape(f"{path.parent}/gate.py: {CHANGED}")):
            still_trusted(config, gate)
        still_trusted(config, log)

    def test_X4_a_changed_config_stops_all(self, path: Path) -> None:
        config = found(path)
        trust(config)
        path.write_text(path.read_text() + "\n# more")
        for spec in config.hooks:
            with pytest.raises(TrustError, match=re.escape(f"{path}: {CHANGED}")):
                still_trusted(config, spec)

    def test_a_script_that_is_trusted_again_runs_again(self, path: Path) -> None:
        config = found(path)
        trust(config)
        (path.parent / "gate.py").write_text("changed")
        trust(found(path))
        still_trusted(config, config.hooks[0])

    def test_a_config_that_is_trusted_again_is_not_the_one_that_was_read(self, path: Path) -> None:
        config = found(path)
        trust(config)
        path.write_text(path.read_text() + "\n# more")
        trust(found(path))
        with pytest.raises(TrustError, match=r"changed after it was read \(start again\)"):
            still_trusted(config, config.hooks[0])

    def test_X4_a_removed_script_or_config_or_trust(self, path: Path) -> None:
        config = found(path)
        trust(config)
        (path.parent / "gate.py").unlink()
        with pytest.raises(TrustError, match="is gone since it was trusted"):
            still_trusted(config, config.hooks[0])
        path.unlink()
        with pytest.raises(TrustError, match="there is no such file"):
            still_trusted(config, config.hooks[1])
        untrust(path)
        with pytest.raises(TrustError, match="is not trusted yet"):
            still_trusted(config, config.hooks[1])


class TestStore:
    def test_only_the_user_can_read_the_store(self, path: Path, store: Path) -> None:
        trust(found(path))
        assert store.stat().st_mode & 0o777 == 0o600
        assert store.parent.stat().st_mode & 0o777 == 0o700
        assert [file.name for file in store.parent.iterdir()] == ["trust.json"]
        assert list(json.loads(store.read_text())["trusted"]) == [str(path)]

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"/p": "x"}', '{"/p": {"/p": 1}}', "\udcff", "[" * 100_000])
    def test_a_damaged_store_trusts_nothing_and_is_reported(self, path: Path, store: Path, content: str) -> None:
        trust(found(path))
        store.write_text(content, errors="surrogateescape")
        (refusal,) = refusals(found(path))
        assert refusal == f"{store}: is damaged, so nothing is trusted (picohook trust replaces it)"
        trust(found(path))
        require_trust(found(path))

    def test_X8_a_store_that_others_can_write_trusts_nothing(self, write: Write, path: Path, store: Path) -> None:
        other = write("other/picohook.toml", TEXT)
        trust(found(path))
        store.chmod(0o666)
        (refusal,) = refusals(found(path))
        assert refusal.startswith(f"{store}: can be written by everyone")
        trust(found(other))
        assert list(json.loads(store.read_text())["trusted"]) == [str(other)]

    def test_a_store_that_cannot_be_written_is_an_error(self, path: Path, home: Path, store: Path) -> None:
        home.write_text("not a directory")
        with pytest.raises(ConfigError, match=re.escape(f"{store}: cannot be written: home is not a directory")):
            trust(found(path))
