"""Packages by somebody else, with an extension each: the fixture `install` makes and finds them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

import pytest

from picohook import extensions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROW = """import picohook
from picohook import Command, Extension, Lazy
extension = Extension(name="{name}", needs="{needs}", commands={{"{key}": Command(Lazy("json:dumps"), "Say hello.")}})
"""


class Install(Protocol):
    """Installs a package of this name: with this text, or with an extension that has one command."""

    def __call__(self, name: str, *, key: str = "hello", needs: str = "", text: str = "") -> None: ...


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, *, key: str = "hello", needs: str = "", text: str = "") -> None:
        (tmp_path / f"{name}.py").write_text(text or ROW.format(name=name, key=key, needs=needs))
        info = tmp_path / f"{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[picohook.extensions]\n{name} = {name}:extension\n")
        sys.modules.pop(name, None)
        extensions.others.cache_clear()

    yield install
    extensions.others.cache_clear()
