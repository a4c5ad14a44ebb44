from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Protocol

import pytest

from picohook.config import load
from picohook.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


class Write(Protocol):
    """Writes a file below the test's directory, readable for all and writable for its owner."""

    def __call__(self, name: str, content: str | bytes) -> Path: ...


class Complaints(Protocol):
    """What is said about a file with this content: each problem as a line, without the file's name."""

    def __call__(self, name: str, content: str | bytes, *, found: bool = False) -> list[str]: ...


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else textwrap.dedent(content).encode())
        path.chmod(0o644)
        return path

    return write


@pytest.fixture
def complaints(write: Write) -> Complaints:
    def complaints(name: str, content: str | bytes, *, found: bool = False) -> list[str]:
        path = write(name, content)
        with pytest.raises(ConfigError) as caught:
            load(path, found=found)
        assert {problem.file for problem in caught.value.problems} == {str(path)}
        return [str(problem).removeprefix(f"{path}: ") for problem in caught.value.problems]

    return complaints
