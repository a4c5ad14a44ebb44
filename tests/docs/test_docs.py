"""What the README and docs/ show is run here, as they show it.

Each page is one working directory, in which its snippets are taken in order, as a reader would:

- ```` ```LANGUAGE title="NAME" ```` is a file of that name, for what follows on the page.
- `python` without a title is run.
- `toml`, `yaml` and `json` are configurations, and are loaded; with `wrong` they must not load.
- `console` is run line by line (`$ COMMAND`, continued by `> `), and the output that it shows is compared: `...` stands for
  anything, and times, directories, runs of spaces and blank lines are not compared. A command may fail only where
  `$ echo $?` follows.
- `jsonl` is a conversation on the wire: each request is held against its stage, each answer against its request.
- `pyi` is a signature, which the code has made.
- `text` is a drawing.
- A hook that a page shows and configures is held to the protocol, MUST and SHOULD, once the page is played.
- Any other language is a file that a console of the page builds and runs. Where its toolchain is missing, the page is skipped.
  In CI it fails.

A snippet that cannot be run says so, with the reason, in a comment on the line above: `<!-- not run: REASON -->`.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import jsonschema
import preloaded
import pytest
import toolchains
import typer
import yaml

import picohook.config
import picohook.testing
from picohook import ConfigError, extensions
from picohook.cli.app import app, load_command, summaries
from picohook.config import load
from picohook.conformance import hook as conformance
from picohook.conformance.report import FAIL
from picohook.ext.sidecar.sidecar import DISPATCHER
from picohook.model.payloads import Payload
from picohook.model.replies import read_decision
from picohook.model.stages import STAGES
from picohook.protocol.codec import decode
from picohook.protocol.messages import InvalidLine
from picohook.rpc.jsonrpc import ERRORS
from picohook.wire import words

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BIN = os.path.dirname(sys.executable)
HOME = Path.home()

LANGUAGES = {"python", "pyi", "console", "toml", "yaml", "json", "jsonl", "text"}
TOOLCHAINS = {
    "node": ("node --version", "install Node"),
    "typescript": (
        f"npm --version && test -d {toolchains.NODE_MODULES}/typescript",
        "install Node with npm, and npm install --no-package-lock --prefix hooks_examples/typescript",
    ),
    "go": ("go version", "install Go"),
    "rust": ("cargo --version", "install Rust with cargo"),
    "java": ("command -v javac", "install a JDK"),
    "c": ("echo '#include <cjson/cJSON.h>' | cc -E -", "apt-get install gcc libc6-dev libcjson-dev"),
    "bash": ("jq --version", "apt-get install jq"),
    "perl": ("perl -MJSON::PP -e 1", "apt-get install perl"),
    "operate-a-fleet": (
        "nats-server --version && openssl version && jq --version",
        "apt-get install nats-server openssl jq",
    ),
    "hooks-over-nats": ("nats-server --version", "apt-get install nats-server"),
    "containment": (
        "/usr/bin/python3 --version && bwrap --unshare-net --ro-bind / / true",
        "apt-get install python3 bubblewrap, where namespaces are allowed",
    ),
}
"""What a page of this name takes: a command that shows whether it is there, and how it is had."""
CONFIGURATIONS = {"toml", "yaml", "json"}
SOURCES = {"javascript", "typescript", "go", "rust", "java", "c", "bash", "perl"}
NOT_RUN_AT_MOST = 5
SCHEMA = jsonschema.Draft202012Validator(picohook.config.schema())
SHELLS: list[subprocess.Popen[str]] = []
"""The shells that ran the page's commands, each in its own process group: programs of a page may run until its end."""
PATIENCE = 30
"""Seconds for an answer, and for the end of a hook, on a busy machine."""

_FENCE = re.compile(r"^```(\w*)(.*)$")
HOLDS = re.compile(r"^SHOULD: \d+ hold, 0 do not.*^conforming$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")


@dataclass
class Snippet:
    """A fenced block."""

    page: str
    line: int
    language: str
    title: str
    wrong: bool
    not_run: str
    text: str

    def __str__(self):
        return f"{self.page}:{self.line}"


def snippets(page):
    found = []
    lines = page.read_text(encoding="utf-8").splitlines()
    place = 0
    while place < len(lines):
        fence = _FENCE.match(lines[place])
        place += 1
        if fence:
            start = place
            while lines[place] != "```":
                place += 1
            title = re.search(r'title="([^"]+)"', fence[2])
            marker = _NOT_RUN.match(lines[start - 2])
            found.append(
                Snippet(
                    str(page.relative_to(ROOT)),
                    start,
                    fence[1],
                    title[1] if title else "",
                    "wrong" in fence[2].split(),
                    marker[1] if marker else "",
                    "\n".join(lines[start:place]) + "\n",
                )
            )
            place += 1
    return found


FRAMEWORKS = "frameworks"
"""The page whose programs import frameworks, and what holds them imported: that takes longer than the programs do."""
NATS_PORT = "4222"
"""The port of the server on the pages. A test takes a free one instead."""
ALL = [snippet for page in PAGES for snippet in snippets(page)]


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Where the reader of a page is: in a directory of their own, with the examples at hand."""
    here = tmp_path / "agent"
    here.mkdir()
    (here / "hooks_examples").symlink_to(ROOT / "hooks_examples")
    monkeypatch.chdir(here)
    for name, value in {
        "PATH": os.pathsep.join((toolchains.programs(), preloaded.programs(), BIN, os.environ["PATH"], "/usr/sbin")),
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "home" / ".config"),
        "NO_COLOR": "1",
        "COLUMNS": "120",
        # Others that happen to be installed here take longer to load than the tests on a page take.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "anyio.pytest_plugin",
        # What toolchains keep and are told for everybody, a reader has already.
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", f"{HOME}/.rustup"),
        "CARGO_HOME": os.environ.get("CARGO_HOME", f"{HOME}/.cargo"),
        "GOCACHE": os.environ.get("GOCACHE", f"{HOME}/.cache/go-build"),
    }.items():
        monkeypatch.setenv(name, value)
    yield here
    end_shells()


def end_shells():
    while SHELLS:
        with SHELLS.pop() as shell, contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)


def marks(page):
    """The worker that has imported frameworks takes the page about them."""
    return [pytest.mark.one_worker("frameworks")] if page.stem == FRAMEWORKS else []


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks(page)) for page in PAGES]
)
def test_the_output_on_a_page_is_real(page, directory, tmp_path):
    if page.stem in TOOLCHAINS:
        need(*TOOLCHAINS[page.stem], tmp_path)
    try:
        play(page, directory)
    except AssertionError:
        # Hooks have ten seconds to start, as a reader's have. A machine that builds in four languages at once may take longer.
        end_shells()
        empty(directory)
        empty(tmp_path / "home")
        play(page, directory)


def empty(directory):
    """Remove what a page has made."""
    for path in directory.glob("*"):
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
    if directory.name == "agent":
        (directory / "hooks_examples").symlink_to(ROOT / "hooks_examples")


def play(page, directory):
    """Run all that the page shows, and compare what comes of it."""
    port = free_port()
    for found in snippets(page):
        snippet = replace(found, text=found.text.replace(NATS_PORT, port))
        assert snippet.language in LANGUAGES | SOURCES, f"{snippet}: say which language it is"
        if snippet.not_run:
            continue
        if snippet.title:
            file = directory / snippet.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(snippet.text, encoding="utf-8")
        else:
            file = directory / f"snippet-{snippet.line}.{snippet.language}"
        if snippet.language in SOURCES:
            assert snippet.title, f"{snippet}: say which file it is"
            continue
        taken = globals()[f"take_{snippet.language}"]
        taken(snippet, file)
    hold_to_the_protocol(page)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def hold_to_the_protocol(page):
    """Each hook that the page shows and configures keeps to all that the kit asks, MUST and SHOULD."""
    files = {one.title: one for one in snippets(page) if one.title and not one.wrong}
    for file in files.values():  # the page may have broken them, to show what happens then
        Path(file.title).write_text(file.text, encoding="utf-8")
    held = [one.text for one in snippets(page) if one.language == "console" and HOLDS.search(one.text)]
    shown = {title for title, file in files.items() if file.language in SOURCES | {"python"}}
    configured = [load(title).hooks for title, file in files.items() if file.language in CONFIGURATIONS]
    for spec in [spec for hooks in configured for spec in hooks]:
        if not any(os.path.basename(word) in shown or word.startswith("./") for word in spec.command):
            continue  # an example, which is held to it where it is tested, or another's program
        if any(
            f"picohook conformance --stages {','.join(spec.stages)} -- {' '.join(spec.command)}\n" in text
            for text in held
        ):
            continue  # the page has just shown that it does
        report = conformance.run(spec.command, stages=spec.stages, timeout=PATIENCE, grace=PATIENCE)
        wrong = [f"{one.requirement.id}: {one.said}" for one in report.results if one.status == FAIL]
        assert not wrong, f"{page.name}: {spec.name} is a bad example\n" + "\n".join(wrong)


def need(probe, install, where):
    """Skip the test unless this command works."""
    there = where / "probe"
    there.mkdir()
    done = subprocess.run(
        ["sh", "-c", probe], cwd=there, capture_output=True, check=False, text=True, timeout=toolchains.COMPILING
    )
    if done.returncode != 0:
        pytest.skip(f"{install}: {done.stderr.strip()}")


def take_python(snippet, file):
    if snippet.title:
        compile(snippet.text, snippet.title, "exec")
        later = [other.text for other in ALL if other.page == snippet.page and other.line > snippet.line]
        assert any(file.name in text for text in later), f"{snippet}: nothing on the page uses {snippet.title}"
        return
    file.write_text(snippet.text, encoding="utf-8")
    python = preloaded.program("python", *([FRAMEWORKS] if Path(snippet.page).stem == FRAMEWORKS else []))
    done = subprocess.run([python, "-W", "error", str(file)], capture_output=True, check=False, text=True, timeout=60)
    assert done.returncode == 0, f"{snippet}:\n{done.stdout}{done.stderr}"


def take_config(snippet, file):
    file.write_text(snippet.text, encoding="utf-8")
    if snippet.wrong:
        with pytest.raises(ConfigError):
            load(file)
        return
    try:
        config = load(file)
    except ConfigError as error:
        pytest.fail(f"{snippet}: {error}")
    assert config.hooks, f"{snippet}: it has no hooks"
    if config.dialect == "native":
        document = {"toml": tomllib.loads, "yaml": yaml.safe_load, "json": json.loads}[snippet.language](snippet.text)
        wrong = [f"{error.json_path}: {error.message}" for error in SCHEMA.iter_errors(document)]
        assert wrong == [], f"{snippet}: an editor would show a mistake"


take_toml = take_yaml = take_json = take_config


def take_text(snippet, file):
    del file
    assert not re.search(r"^(\$ |import |from .* import )", snippet.text, re.MULTILINE), f"{snippet}: this can be run"


def take_pyi(snippet, file):
    del file
    assert snippet.page == "docs/reference/api.md", (
        f"{snippet}: `make reference` writes signatures on the page of the API"
    )
    ast.parse(snippet.text)


def take_jsonl(snippet, file):
    del file
    asked = {}
    for line in snippet.text.splitlines():
        message = decode(line.encode())
        assert not isinstance(message, InvalidLine), f"{snippet}: {message}: {line}"
        value = json.loads(line)
        assert value["jsonrpc"] == "2.0"
        name = value.get("method", "").removeprefix("hook.")
        if "method" not in value:
            take_answer(snippet, asked.pop(value["id"]), value)
        elif "id" in value:
            assert name in {*STAGES, "hello"}, f"{snippet}: there is no method {value['method']}"
            asked[value["id"]] = name
            if name in STAGES:
                STAGES[name].payload.model_validate(value["params"])
        else:
            assert value["method"] in {words.EVENT, words.RUNTIME_EVENT, words.CANCEL, words.LOG, words.PROGRESS}
    assert not asked, f"{snippet}: no answer to {asked}"


def take_answer(snippet, name, answer):
    if "error" in answer:
        assert {"code", "message"} <= answer["error"].keys(), str(snippet)
    elif name in STAGES:
        read_decision(STAGES[name], answer["result"])
    else:
        assert isinstance(answer["result"], dict), str(snippet)


def take_console(snippet, file):
    commands = console_commands(snippet)
    mark = "--- the next command ---"
    script = "".join(
        f"{command}\n_status=$?; printf '%s %s\\n' '{mark}' $_status; (exit $_status)\n" for command, _ in commands
    )
    shell = subprocess.Popen(
        ["bash"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )
    SHELLS.append(shell)
    said, _ = shell.communicate(script, timeout=200)
    parts = re.split(rf"{mark} (\d+)\n", said)
    shown, statuses = parts[0:-1:2], parts[1::2]
    assert len(shown) == len(commands), f"{snippet}:\n{said}"
    for place, (command, expected) in enumerate(commands):
        may_fail = [other for other, _ in commands[place + 1 : place + 2]] == ["echo $?"]
        assert statuses[place] == "0" or may_fail, f"{snippet}: $ {command}\n{shown[place]}"
        if expected:
            actual = comparable(toolchains.without_notices(shown[place]), file.parent)
            pattern = as_pattern(comparable(expected, file.parent))
            assert re.fullmatch(pattern, actual), f"{snippet}: $ {command}\nshows\n{actual}\nand the page\n{expected}"


def console_commands(snippet):
    """The commands, and the output that is shown for each."""
    commands = []
    for line in snippet.text.splitlines():
        if line.startswith("$ "):
            commands.append([line[2:], ""])
        elif line.startswith("> ") and not commands[-1][1]:
            commands[-1][0] += f"\n{line[2:]}"
        else:
            commands[-1][1] += f"{line}\n"
    assert commands, f"{snippet}: no line begins with '$ '"
    return [(command, shown) for command, shown in commands]


def comparable(text, directory):
    """The text without what differs from one run, machine or width of a column to the next."""
    for found, named in (
        (str(directory), "/home/you/agent"),
        (str(directory.parent / "home"), "/home/you"),
        (preloaded.programs(), "/usr/bin"),
        (BIN, "/usr/bin"),
        (str(ROOT), "/home/you/picohook"),
    ):
        text = text.replace(found, named)
    text = re.sub(r"\d+\.\d+ ms", "0.1 ms", text)
    text = re.sub(r'"duration_ms": [0-9.]+', '"duration_ms": 0.1', text)
    lines = [re.sub(r" +", " ", line).rstrip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line)


def as_pattern(text):
    lines = [
        r"(?:.*\n)*?.*" if line.strip() == "..." else re.escape(line).replace(r"\.\.\.", ".*")
        for line in text.split("\n")
    ]
    return "\n".join(lines)


def test_few_snippets_are_not_run_and_each_says_why():
    assert len([snippet for snippet in ALL if snippet.not_run]) <= NOT_RUN_AT_MOST


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_of_a_page_lead_to_existing_targets(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), f"there is no {target}"
        if anchor:
            assert anchor in anchors(linked), f"there is no {target}"


def anchors(page):
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


# The reference is complete.


def prose(page):
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def mentioned(page):
    """The words in code type."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose(ROOT / page)))))


def test_the_api_page_has_every_public_name():
    assert {*picohook.__all__, *picohook.testing.__all__} - mentioned("docs/reference/api.md") == set()


def test_the_protocol_page_has_every_stage_action_and_event():
    named = mentioned("docs/reference/protocol.md")
    text = (ROOT / "docs/reference/protocol.md").read_text(encoding="utf-8")
    assert {f"hook.{stage}" for stage in STAGES} - set(re.findall(r"hook\.\w+", text)) == set()
    assert {action for stage in STAGES.values() for action in stage.actions} - named == set()
    assert {kind for kinds in words.EVENT_KINDS.items() for kind in kinds if f"`{kind}`" not in text} == set()
    assert words.CAPABILITIES - named == set()


def test_the_installation_page_has_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs/how-to/install.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(extras)


def test_the_readme_is_read_in_ten_minutes():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 500


def test_the_navigation_has_every_page():
    named = re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text())
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES if page.name != "README.md"]
    assert sorted(named) == sorted(pages)


def test_the_sidecars_page_has_every_method_param_and_error():
    text = (ROOT / "docs/reference/sidecar.md").read_text(encoding="utf-8")
    words = {*re.findall(r"`([^`]+)`", prose(ROOT / "docs/reference/sidecar.md"))}
    own = [method.params for method in DISPATCHER.methods.values() if not issubclass(method.params, Payload)]
    params = {name for model in own for name in model.model_fields}
    assert (DISPATCHER.methods.keys() | params) - words == set()
    assert {code for code in ERRORS if f"| `{code}` | {ERRORS[code]} |" not in text} == set()


def test_the_command_line_page_has_every_command_and_option():
    everything = [typer.main.get_command(app), *map(load_command, summaries())]
    options = {option for command in everything for parameter in command.params for option in parameter.opts}
    options |= {key.split()[-1] for key in extensions.every_built_in("options")}
    words = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert {name for name in summaries() if f"## picohook {name}\n" not in words} == set()
    assert {option for option in options if option.startswith("--") and f"`{option}" not in words} == {
        "--help"
    } & options
