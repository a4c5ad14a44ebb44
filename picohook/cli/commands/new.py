"""`picohook new`: write a first hook with its configuration and a test, in one of several languages."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from ...config.problems import meant, quoted
from ...errors import PicohookError
from ...model.stages import STAGES
from ...wire.text import escape
from ...wire.written_files import make_directory, open_to_write
from .. import output
from ..command import App, Json

app = App()
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_DECIDED = ("before_tool", "approve_tool")
"""The stages at which the new hook can decide something. At all others it answers `continue`."""
_READ_ONLY = ("read_file", "list_dir", "search")
"""The tools that the new hook approves."""
_RUNS_TYPESCRIPT = (22, 18)
"""The first version of Node that runs TypeScript without a compiler."""


@dataclass(frozen=True)
class _Language:
    name: str
    source: str
    """The file with the hook's code."""
    run: str
    test: str
    programs: tuple[str, ...]
    """The programs it needs on the PATH."""
    needs: str
    """Its requirements, for people."""
    build: str = ""


_LANGUAGES = {
    "python": _Language(
        "Python",
        "hook.py",
        run="python3 hook.py",
        test="python3 -m unittest",
        programs=("python3",),
        needs="Python 3.11 or newer, with picohook in it",
    ),
    "node": _Language(
        "JavaScript",
        "hook.mjs",
        run="node hook.mjs",
        test="node --test",
        programs=("node",),
        needs="Node 18 or newer",
    ),
    "typescript": _Language(
        "TypeScript",
        "hook.mts",
        run="node dist/hook.mjs",
        test="node --test dist/hook.test.mjs",
        programs=("node", "npm"),
        needs="Node 18 or newer, and npm for the compiler",
        build="npm install && npx tsc",
    ),
    "go": _Language(
        "Go",
        "hook.go",
        run="./hook",
        test="go test",
        programs=("go",),
        needs="Go 1.21 or newer",
        build="go build",
    ),
    "rust": _Language(
        "Rust",
        "src/main.rs",
        run="./target/release/hook",
        test="cargo test",
        programs=("cargo",),
        needs="Rust 1.75 or newer, with cargo",
        build="cargo build --release",
    ),
    "bash": _Language(
        "bash and jq",
        "hook.sh",
        run="bash hook.sh",
        test="bash test.sh",
        programs=("bash", "jq"),
        needs="jq 1.6 or newer",
    ),
}
_TYPESCRIPT_WITHOUT_COMPILER = _Language(
    "TypeScript",
    "hook.mts",
    run="node hook.mts",
    test="node --test hook.test.mts",
    programs=("node",),
    needs="Node 22.18 or newer",
)


@app.command()
def new(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A new or empty directory. The hook gets its name.", show_default=False),
    ],
    *,
    lang: Annotated[
        str,
        typer.Option(
            metavar="LANGUAGE", help=f"One of {', '.join(_LANGUAGES)}.", autocompletion=lambda: list(_LANGUAGES)
        ),
    ] = "python",
    stages: Annotated[str, typer.Option(metavar="A,B", help="The stages that it answers.")] = "before_tool",
    as_json: Json = False,
) -> None:
    """Write a first hook, its configuration and a test.

    \b
    picohook new guard --lang go --stages before_tool,approve_tool
    """  # noqa: D301 - click reads a backspace character, not an escape
    language = _language(lang)
    asked_at = _stages(stages)
    directory = Path(os.path.abspath(directory))
    if not _NAME.fullmatch(directory.name):
        raise typer.BadParameter(
            f"{quoted(directory.name)} cannot be a hook's name: take letters, digits, - and _", param_hint="DIR"
        )
    texts = contents(directory.name, lang, asked_at)
    _write(directory, texts)
    made = sorted(texts)
    for program in language.programs:
        if shutil.which(program) is None:
            output.warn(f"{program} is not on the PATH: the hook needs {language.needs}")
    if as_json:
        output.data(
            {
                "dir": str(directory),
                "name": directory.name,
                "language": lang,
                "stages": asked_at,
                "files": made,
                "build": language.build or None,
                "test": language.test,
                "run": shlex.split(language.run),
            }
        )
        return
    output.line(f"{directory}: a hook in {language.name} for {', '.join(asked_at)}", style="bold green")
    for name in made:
        output.line(f"  {name}")
    output.line("Build and test it:" if language.build else "Test it:")
    for command in (f"cd {shlex.quote(str(directory))}", language.build, language.test):
        if command:
            output.line(f"  {command}")


def _language(name: str) -> _Language:
    if name not in _LANGUAGES:
        raise typer.BadParameter(f"there is no {quoted(name)} ({meant(name, _LANGUAGES)})", param_hint="--lang")
    return _TYPESCRIPT_WITHOUT_COMPILER if name == "typescript" and _node() >= _RUNS_TYPESCRIPT else _LANGUAGES[name]


@cache
def _node() -> tuple[int, ...]:
    """Returns the version of Node, empty if it is not installed."""
    try:
        printed = subprocess.run(["node", "--version"], capture_output=True, check=False, text=True, timeout=10).stdout  # noqa: S607
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(map(int, re.findall(r"\d+", printed)[:2]))


def _stages(text: str) -> list[str]:
    """Returns the stages that were named, in the order of a turn."""
    named = text.replace(",", " ").split()
    for name in named:
        if name not in STAGES:
            raise typer.BadParameter(f"there is no {quoted(name)} ({meant(name, STAGES)})", param_hint="--stages")
    if not named:
        raise typer.BadParameter(f"name one at least ({meant(None, STAGES)})", param_hint="--stages")
    return [stage for stage in STAGES if stage in named]


def contents(name: str, lang: str, asked_at: list[str]) -> dict[str, str]:
    """Returns the texts of a new hook's files, by their names."""
    language = _language(lang)
    others = [stage for stage in asked_at if stage not in _DECIDED]
    values = {
        "name": name,
        "what": f"{name}: a hook for an agent",
        "read_only": _listed(_READ_ONLY),
        "language": language.name,
        "source": language.source,
        "command": _listed(shlex.split(language.run)),
        "run": language.run,
        "build": language.build,
        "test": language.test,
        "needs": language.needs,
        "stages": _listed(asked_at),
        "others": _listed(others),
        "others_words": " ".join(others),
    }
    held = {"first", *asked_at, *(["others"] if others else []), *(["build"] if language.build else [])}
    groups = {"others": [_names_of(stage) for stage in others]}
    templates = {**_templates(_place("common")), **_templates(_place(lang))}
    return {
        file: render(template.read_text(encoding="utf-8"), held, values, groups) for file, template in templates.items()
    }


def _write(directory: Path, texts: Mapping[str, str]) -> None:
    """Write all files, or none."""
    written: list[Path] = []
    try:
        present = directory.exists()
        if present and any(directory.iterdir()):
            raise PicohookError(f"{escape(str(directory))} is not empty: name an empty directory, or a new one")
        make_directory(directory, 0o755)
        if not present:
            written.append(directory)
        for name, text in texts.items():
            inner = (directory / name).parent  # one level at most
            if not inner.exists():
                make_directory(inner, 0o755)
                written.append(inner)
            written.append(directory / name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with open(open_to_write(written[-1], flags, 0o644), "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        for path in reversed(written):
            _remove(path)
        raise PicohookError(f"{escape(str(directory))} cannot be written: {error.strerror}") from None


def _remove(path: Path) -> None:
    try:
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    except OSError:
        pass  # the error that is reported already may prevent this too


def _place(name: str) -> Traversable:
    return files("picohook.cli") / "templates" / name


def _templates(place: Traversable, before: str = "") -> dict[str, Traversable]:
    """Returns the templates in a directory and below, by the names of the files that are made of them."""
    found: dict[str, Traversable] = {}
    for entry in place.iterdir():
        if entry.is_dir():
            found |= _templates(entry, f"{before}{entry.name}/")
        else:
            found[before + entry.name.removesuffix(".in")] = entry
    return found


def _names_of(stage: str) -> dict[str, str]:
    """The names and values of a stage for templates."""
    words = [word.upper() if word == "llm" else word.capitalize() for word in stage.split("_")]
    return {
        "stage": stage,
        "class": "".join(words),
        "function": words[0].lower() + "".join(words[1:]),
        "about": STAGES[stage].about,
    }


def render(
    template: str,
    held: Collection[str],
    values: Mapping[str, str],
    groups: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
) -> str:
    """Returns the text of a template with each `@name@` replaced by its value.

    The lines between `@if A B` and `@end` stay if A or B is held. The lines between `@each G` and `@end` are repeated for each
    member of the group G, with the member's own values.
    """
    made, block = [], ""
    members: Sequence[Mapping[str, str]] = [{}]
    for line in template.splitlines(keepends=True):
        if line.startswith(("@if ", "@each ")) or line == "@end\n":
            made += [_filled(block, {**values, **member}) for member in members]
            block, (word, *names) = "", line.split()
            members = [{}] if word == "@end" or any(name in held for name in names) else []
            if word == "@each":
                members = (groups or {})[names[0]]
        else:
            block += line
    return "".join([*made, _filled(block, values)])


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda found: values[found[1]], text)


def _listed(words: Collection[str]) -> str:
    """Returns the words as elements of a list, quoted as in TOML and in all of the languages."""
    return ", ".join(f'"{word}"' for word in words)
