"""Packages by somebody else, with an extension."""

from __future__ import annotations

import sys

import pytest

from picohook import extensions

ROW = """import picohook
from picohook import Command, Extension, Lazy
extension = Extension(name="{name}", needs="{needs}", commands={{"{key}": Command(Lazy("json:dumps"), "Say hello.")}})
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package of this name with an extension."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, *, key: str = "hello", needs: str = "", text: str = ""):
        (tmp_path / f"{name}.py").write_text(text or ROW.format(name=name, key=key, needs=needs))
        info = tmp_path / f"{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[picohook.extensions]\n{name} = {name}:extension\n")
        sys.modules.pop(name, None)
        extensions.others.cache_clear()

    yield install
    extensions.others.cache_clear()
