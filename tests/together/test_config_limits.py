"""Whatever is found is read up to a limit, without waiting: it is read before anybody has trusted it."""

from __future__ import annotations

import io
import os
import resource
from typing import TYPE_CHECKING

import pytest
import typer

from picohook.cli import params as given
from picohook.config import load
from picohook.config.syntax import MOST_DEPTH, MOST_VALUES
from picohook.errors import ConfigError, TrustError
from picohook.ext.record import reader
from picohook.ext.record.format import VERSION
from picohook.journal import ledger
from picohook.projects.trust import require_trust, trust
from picohook.wire.regular_files import open_regular, read_regular

if TYPE_CHECKING:
    from pathlib import Path

    from config_files import Complaints, Write

MIB = 1 << 20
ENDINGS = ["toml", "yaml", "json"]


@pytest.fixture(params=ENDINGS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"picohook.{request.param}"


def complaint(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, found=True)
    (said,) = str(caught.value).splitlines()
    return said.removeprefix(f"{path}: ")


def test_X3_a_sparse_file_of_gigabytes_is_refused_by_its_size(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(20_000 * MIB)
    assert complaint(place) == "is larger than 1 MiB"


def test_X3_a_file_that_grows_while_it_is_read_is_refused_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write_bytes(b" " * 2 * MIB)
    real = os.fstat

    def small(descriptor: int) -> os.stat_result:
        values = list(real(descriptor))
        values[6] = 10
        return os.stat_result(values)

    monkeypatch.setattr(os, "fstat", small)
    assert complaint(place) == "is larger than 1 MiB"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_X6_a_link_to_a_device_is_refused(place: Path, device: str) -> None:
    place.symlink_to(device)
    assert complaint(place) in {"is not a regular file", "there is no such file"}


def test_X6_a_named_pipe_a_directory_and_a_link_in_a_circle_are_refused(place: Path) -> None:
    os.mkfifo(place)
    assert complaint(place) == "is not a regular file"
    place.unlink()
    place.mkdir()
    assert complaint(place) == "is a directory, not a file"
    place.rmdir()
    place.symlink_to(place)
    assert complaint(place).startswith("cannot be read: Too many levels")


def test_X3_a_file_that_is_replaced_between_check_and_opening_is_refused_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    real = os.stat

    def swapped(path: str | os.PathLike[str]) -> os.stat_result:
        status = real(path)
        file.unlink()
        os.mkfifo(file)
        return status

    monkeypatch.setattr(os, "stat", swapped)
    with pytest.raises(OSError, match="it is not a regular file"):
        open_regular(file)


DEEP = {
    "a.toml": [
        ".".join("a" * 50_000) + " = 1",
        " . ".join(["'a'", '"a"'] * 25_000) + " = 1",
        f"x = {{ {'.'.join('a' * 50_000)} = 1 }}",
        f"[{'.'.join('a' * 50_000)}]",
        "x = " + "[" * 50_000,
        "x = " + "{a = " * 50_000,
        "\n".join(f"k{number}.{'.'.join('a' * (MOST_DEPTH - 2))} = 1" for number in range(7000)),
    ],
    "a.yaml": ["x: " + "[" * 500_000, "- " * 500_000, "? " * 500_000, "{" * 500_000],
    "a.json": ["[" * 1_000_000, '{"a":' * 200_000, "[" * 100 + "]" * 100],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in DEEP.items() for text in texts], ids=len)
def test_X3_depth_and_its_memory_are_bounded_in_every_format(complaints: Complaints, name: str, text: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (said,) = complaints(name, text, found=True)
    assert "is nested too deeply" in said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB


def test_a_key_may_have_parts_up_to_the_limit_and_text_any_number_of_dots(write: Write) -> None:
    dots = "." * 100 + "a.b" * 100
    text = f"""
        [hooks.a]
        run = '''{dots}
        # {dots}'''
        stages = ["before_tool"]  # {dots}
        canary.tool = "{dots} \\" {dots}"
        canary.arguments.{".".join("a" * (MOST_DEPTH - 6))} = 1
        """
    assert load(write("a.toml", text)).hooks[0].name == "a"


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_X3_values_are_bounded_in_number(complaints: Complaints, name: str) -> None:
    text = "[" + "1, " * MOST_VALUES + "1]"
    (said,) = complaints(name, f'{{"x": {text}}}', found=True)
    assert said == "has too many values"


@pytest.mark.parametrize("value", ["1:" * 300_000 + "1", "1:" * 300_000 + "1.0", "0x" + "f" * 9000])
def test_X3_a_number_in_yaml_is_bounded_in_length(complaints: Complaints, value: str) -> None:
    (said,) = complaints("a.yaml", f"x: {value}", found=True)
    assert said == "line 1, column 4: cannot be read: this value is too long"


def test_X3_mistakes_are_bounded_in_number_and_in_length(complaints: Complaints) -> None:
    hooks = ", ".join(f'"{"a" * 900}{number}": {{}}' for number in range(900))
    said = complaints("a.json", f'{{"hooks": {{{hooks}}}}}', found=True)
    assert len(said) == 50
    assert max(map(len, said)) < 1000


def test_the_trust_store_has_its_own_size_limit(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    config = load(write("project/picohook.toml", '[hooks.a]\nprompt = "?"\nstages = ["before_tool"]\n'), found=True)
    trust(config)
    store = tmp_path / "home/picohook/trust.json"
    store.write_text(store.read_text() + " " * 2 * MIB)
    require_trust(config)
    os.truncate(store, 20_000 * MIB)
    with pytest.raises(TrustError, match=r"trust\.json: is larger than 16 MiB"):
        require_trust(config)
    store.unlink()
    os.mkfifo(store)
    with pytest.raises(TrustError, match=r"trust\.json: is not a regular file"):
        require_trust(config)


def test_a_file_of_params_is_bounded_and_may_be_a_pipe(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="/dev/zero cannot be read: it is larger than 16 MiB"):
        given.read_source("/dev/zero")
    with pytest.raises(typer.BadParameter, match="it is a directory"):
        given.read_source(str(tmp_path))
    readable, writable = os.pipe()
    os.write(writable, b"{}")
    os.close(writable)
    assert given.read_source(f"/dev/fd/{readable}") == b"{}"
    os.close(readable)


def test_lines_of_records_and_audit_logs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LONGEST_LINE", 1000)
    monkeypatch.setattr(ledger, "LONGEST_LINE", 1000)
    assert "record 1 is incomplete" in (ledger.verify(io.BytesIO(b"x" * 5000)).problem or "")
    header = b'{"type": "record", "version": %d, "picohook": "1", "time": "2020"}\n' % VERSION
    record = reader.Record(io.BytesIO(header + b"x" * 5000), "r")
    with pytest.raises(reader.RecordError, match="line 2 has more than"):
        list(record)


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100)
    assert read_regular(file, 100) == b"x" * 100
    with pytest.raises(OSError, match="it is larger than 99 bytes"):
        read_regular(file, 99)
