"""Files of earlier versions are read: `versions/` has one of each, as the picohook of that time wrote or read it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from picohook.config import load
from picohook.errors import TrustError
from picohook.projects import trust_store
from picohook.projects.trust import require_trust, trust, untrust

if TYPE_CHECKING:
    from config_files import Write

VERSIONS = Path(__file__).parent / "versions"


@pytest.fixture
def trusted(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration that the trust store of version 1 names."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    path = write("project/picohook.toml", (VERSIONS / "trusted.toml").read_bytes())
    write("home/picohook/trust.json", (VERSIONS / "trust-1.json").read_text().replace("@project@", str(path.parent)))
    return path


def store(*document: object) -> dict[str, object]:
    """What the trust store holds; first write this."""
    for given in document:
        trust_store.path().write_text(json.dumps(given))
    read: dict[str, object] = json.loads(trust_store.path().read_text())
    return read


def test_a_native_file_of_version_1_keeps_its_meaning(write: Write) -> None:
    config = load(write("picohook.toml", (VERSIONS / "native-1.toml").read_bytes()))
    expected = json.loads((VERSIONS / "native-1.json").read_text())
    hooks = [spec.model_dump(mode="json", exclude_defaults=True, exclude={"dir", "source"}) for spec in config.hooks]
    hooks[2]["timeout"] = config.hooks[2].timeout  # a default of its kind
    assert hooks == expected["hooks"]
    assert config.timeouts.model_dump() == expected["timeouts"]
    assert config.tables["picoclaw"].version == expected["picoclaw"]
    assert config.tables["model"].model_dump() == expected["model"]
    assert config.tables["audit"].path == str(config.path.parent / "audit.jsonl")


def test_a_trust_store_of_version_1_is_read(trusted: Path) -> None:
    require_trust(load(trusted, found=True))
    trusted.write_text(trusted.read_text() + "\n")
    with pytest.raises(TrustError, match="changed since it was trusted"):
        require_trust(load(trusted, found=True))


def test_the_next_write_makes_a_trust_store_of_version_1_one_of_version_2(trusted: Path, write: Write) -> None:
    before = store()
    other = write("other/picohook.toml", trusted.read_bytes())
    trust(load(other, found=True))
    assert store()["version"] == 2
    require_trust(load(trusted, found=True))
    assert untrust(other)
    assert store() == {"version": 2, "trusted": before}


def test_a_trust_store_of_a_newer_version_trusts_nothing_and_is_not_replaced(trusted: Path) -> None:
    newer = store({"version": 3, "trusted": {}, "more": 1})
    config = load(trusted, found=True)
    said = "trust.json: is of version 3, and this picohook knows 2, so nothing is trusted (update picohook)"
    for use in (lambda: require_trust(config), lambda: trust(config), lambda: untrust(trusted)):
        with pytest.raises(TrustError, match=re.escape(said)):
            use()
    assert store() == newer


@pytest.mark.parametrize("document", [{"version": 2}, {"version": "2", "trusted": {}}, {"version": 0, "trusted": {}}])
def test_a_trust_store_with_a_wrong_version_is_damaged(trusted: Path, document: object) -> None:
    store(document)
    with pytest.raises(TrustError, match="is damaged, so nothing is trusted"):
        require_trust(load(trusted, found=True))
