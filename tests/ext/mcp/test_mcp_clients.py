"""`picohook mcp --init` and `--undo`: the configuration files of MCP clients, in their own formats."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from picohook.errors import PicohookError
from picohook.ext.mcp.clients import BACKUP, ClientFile, put_before, take_away

CLAUDE = """{"mcpServers": {"local": {"command": "npx", "args": ["-y", "it"]}, "bare": {"command": "true"}},
 "projects": {"/p": {"mcpServers": {"inside": {"command": "x", "env": {"A": "secret-7"}}}}}}"""
VS_CODE = """\ufeff{
\t// what it asks for
\t"inputs": [{"id": "key", "type": "promptString"}],
\t"servers": {
\t\t"local": { "type": "stdio", "command": "npx", /* a note, "with": { */ "args": ["-y", "//it"], },
\t\t"other": { "type": "stdio", "command": "x", "env": { "KEY": "${input:key}" } },
\t},
}
"""
ZED = """// settings
{
  "theme": "One",
  "context_servers": {
    "local": {"source": "custom", "command": "npx"}
  }
}"""
FILES = {
    "claude.json": (CLAUDE, ["local", "bare", "inside"]),
    "mcp.json": (VS_CODE, ["local", "other"]),
    "windows.json": (VS_CODE.replace("\n", "\r\n"), ["local", "other"]),
    "settings.json": (json.dumps({"mcp": {"servers": {"a": {"command": "x"}}}, "servers": 7}), ["a"]),
    "zed.json": (ZED, ["local"]),
}


@pytest.fixture(params=FILES)
def file(request, tmp_path):
    made = tmp_path / request.param
    made.write_bytes(FILES[request.param][0].encode())
    made.chmod(0o640)
    return made


def test_each_server_is_guarded_and_undo_gives_the_very_bytes_back(file):
    before = file.read_bytes()
    guarded = FILES[file.name][1]
    assert put_before(file, ["--changed", "deny"]) == (guarded, {})
    wrapped = file.read_bytes()
    assert wrapped.count(b'"--changed"') == len(guarded)
    assert file.stat().st_mode & 0o777 == 0o640
    assert put_before(file, []) == ([], {})
    assert file.read_bytes() == wrapped
    assert take_away(file) == guarded
    assert file.read_bytes() == before
    assert take_away(file) == []
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_no_module_of_the_directory_where_a_client_starts_its_servers_runs_in_place_of_picohooks(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")  # so the entry runs this Python
    file = tmp_path / "client.json"
    file.write_text(GUARDED_BY_HAND)
    assert put_before(file, []).changed == ["open"]
    entry = ClientFile.read(file).servers[1].value
    python, *arguments = [entry["command"], *entry["args"][: entry["args"].index("mcp")]]
    (tmp_path / "picohook").mkdir()
    (tmp_path / "picohook" / "__init__.py").touch()
    (tmp_path / "picohook" / "__main__.py").write_text("print('of the project')")
    done = subprocess.run([python, *arguments, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("picohook ")
    assert take_away(file) == ["open"]
    assert file.read_text() == GUARDED_BY_HAND


GUARDED_BY_HAND = """{
  // servers
  "mcpServers": {
    "mine": {"command": "picohook", "args": ["mcp", "--name", "mine", "--", "npx", "it"]}, // by hand
    "open": {"command": "npx",   "args": ["-y", "that"]} // a comment
  }
}"""


def test_one_that_was_guarded_by_hand_stays_guarded_and_the_rest_gets_its_bytes_back(tmp_path):
    file = tmp_path / "client.json"
    file.write_text(GUARDED_BY_HAND)
    assert put_before(file, []).changed == ["open"]
    assert file.with_name(file.name + BACKUP).read_text() == GUARDED_BY_HAND
    assert take_away(file) == ["open"]
    assert file.read_text() == GUARDED_BY_HAND
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_a_server_that_was_added_since_is_undone_with_the_others(tmp_path):
    file = tmp_path / "client.json"
    file.write_text(GUARDED_BY_HAND)
    put_before(file, [])
    more = '"mcpServers": {\n    "new": {"command": "x"}, // new'
    file.write_text(file.read_text().replace('"mcpServers": {', more))
    assert put_before(file, []).changed == ["new"]
    assert sorted(take_away(file)) == ["new", "open"]
    assert file.read_text() == GUARDED_BY_HAND.replace('"mcpServers": {', more)


@pytest.mark.parametrize("linked", ["client.json", "backup"])
def test_X10_a_link_of_the_repository_is_not_followed(tmp_path, monkeypatch, linked):
    (tmp_path / "own.json").write_text(GUARDED_BY_HAND)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    file = tmp_path / "project" / "client.json"
    if linked == "backup":
        file.write_text(GUARDED_BY_HAND)
    link = file if linked == "client.json" else file.with_name(file.name + BACKUP)
    link.symlink_to(tmp_path / "own.json")
    with pytest.raises(PicohookError, match="is a link to"):
        put_before(Path("client.json"), [])
    assert file.read_text() == (tmp_path / "own.json").read_text() == GUARDED_BY_HAND


def test_a_link_of_the_user_stays_one_and_the_file_behind_it_is_edited(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "dotfiles" / ".git").mkdir(parents=True)
    kept = tmp_path / "dotfiles" / "client.json"
    kept.write_text(GUARDED_BY_HAND)
    file = tmp_path / "client.json"
    file.symlink_to(kept)
    assert put_before(file, []).changed == ["open"]
    assert file.is_symlink()
    assert kept.read_text() != GUARDED_BY_HAND
    assert take_away(file) == ["open"]
    assert kept.read_text() == GUARDED_BY_HAND
    assert sorted(one.name for one in kept.parent.iterdir()) == [".git", "client.json"]


@pytest.mark.parametrize(
    ("value", "why"),
    [("1e400", "Out of range"), ("NaN", "Out of range"), ('{"b": 1, "b": 2}', "has the key 'b' twice")],
)
def test_an_entry_that_cannot_be_written_again_is_named_and_elsewhere_it_stays(tmp_path, value, why):
    file = tmp_path / "client.json"
    text = f'{{"x": {value}, "y": "\\ud83d", "mcpServers": {{"a": {{"command": "x", "env": "\\ud83d"}}}}}}'
    file.write_text(text)
    put_before(file, [])
    assert file.read_text().startswith(f'{{"x": {value}, "y": "\\ud83d", ')
    assert '"env": "\\ud83d"' in file.read_text()
    take_away(file)
    assert file.read_text() == text
    text = f'{{"mcpServers": {{"a": {{"command": "x", "env": {value}}}}}}}'
    file.write_text(text)
    with pytest.raises(PicohookError, match=f"client.json: a cannot be edited: .*{why}"):
        put_before(file, [])
    assert file.read_text() == text


def test_X11_a_file_that_the_client_writes_meanwhile_is_left(tmp_path, monkeypatch):
    file = tmp_path / "client.json"
    file.write_text(GUARDED_BY_HAND)
    found = ClientFile.read(file)
    file.write_text("{}")
    with pytest.raises(PicohookError, match="changed after it was read: try again"):
        found.replace(
            {found.servers[0].place: (found.servers[0].value, found.text_of(found.servers[0], found.servers[0].value))}
        )
    assert file.read_text() == "{}"


def test_without_the_version_before_undo_makes_entries_that_can_be_guarded_again(file):
    put_before(file, [])
    wrapped = file.read_bytes()
    file.with_name(file.name + BACKUP).unlink()
    assert take_away(file) == put_before(file, []).changed == FILES[file.name][1]
    assert sorted(file.read_bytes().split()) == sorted(wrapped.split())


def test_what_is_changed_meanwhile_stays_changed(tmp_path):
    file = tmp_path / "client.json"
    file.write_text(CLAUDE)
    put_before(file, [])
    document = json.loads(file.read_text())
    document["mcpServers"]["local"]["args"].append("more")
    document["new"] = 1
    file.write_text(json.dumps(document))
    take_away(file)
    document = json.loads(file.read_text())
    assert document["mcpServers"]["local"] == {"command": "npx", "args": ["-y", "it", "more"]}
    assert document["new"] == 1
    assert "secret-7" in file.with_name(file.name + BACKUP).read_text()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"type": "http", "url": "https://me:secret-7@127.0.0.1/mcp"}, "`picohook mcp --url URL`"),
        ({"httpUrl": "http://127.0.0.1/mcp"}, "`picohook mcp --url URL`"),
        ({"source": "extension"}, "does not see its command"),
        ({"command": {"path": "npx"}}, "does not see its command"),
    ],
)
def test_a_server_that_cannot_be_guarded_is_left_and_named_with_the_reason(tmp_path, entry, why):
    file = tmp_path / "client.json"
    before = json.dumps({"mcpServers": {"it": entry}})
    file.write_text(before)
    changed, left = put_before(file, [])
    assert (changed, list(left), file.read_text()) == ([], ["it"], before)
    assert why in left["it"]
    assert "secret-7" not in left["it"]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("client.json", "// x\n{", "is not JSON"),
        ("client.json", "{}", "has no servers"),
        ("client.json", "[]", "has no servers"),
        ("client.json", '{"servers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "two servers of one name"),
        ("config.toml", '[mcp_servers.a]\ncommand = "x"', "codex mcp add NAME -- picohook mcp"),
    ],
)
def test_a_file_that_cannot_be_edited_is_left_as_it_is(tmp_path, name, text, why):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(PicohookError, match=why):
        put_before(file, [])
    assert file.read_text() == text
