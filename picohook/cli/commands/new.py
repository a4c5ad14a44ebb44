"""`picohook new`: write a first hook with its configuration and a test, in one of several languages."""

import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import typer

from ...config.problems import meant, quoted
from ...errors import PicohookError
from ...model.stages import STAGES
from ...wire.text import escape
from ...wire.written_files import place
from .. import output
from ..command import App, Json, require_known

app = App()
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_DECIDED = ("before_tool", "approve_tool")
"""The stages at which the new hook can decide something. At all others it answers `continue`."""
_READ_ONLY = ("read_file", "list_dir", "search")
"""The tools that the new hook approves."""
_TEMPLATES = files("picohook.cli") / "templates"
_LANGUAGES: dict[str, dict[str, Any]] = tomllib.loads((_TEMPLATES / "languages.toml").read_text(encoding="utf-8"))


@app.command()
def new(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A new or empty directory. The hook gets its name."),
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
    require_known([lang], _LANGUAGES, "--lang")
    language = _LANGUAGES[lang]
    asked_at = _stages(stages)
    directory = Path(os.path.abspath(directory))
    name = directory.name
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(
            f"{quoted(name)} cannot be a hook's name: take letters, digits, - and _", param_hint="DIR"
        )
    texts = contents(name, lang, asked_at)
    _write(directory, texts)
    for program in language["programs"].split():
        if shutil.which(program) is None:
            output.warn(f"{program} is not on the PATH: the hook needs {language['needs']}")
    build, test = language.get("build", ""), language["test"]
    if as_json:
        about = {"dir": str(directory), "name": name, "language": lang, "stages": asked_at, "files": sorted(texts)}
        output.data({**about, "build": build or None, "test": test, "run": shlex.split(language["run"])})
        return
    output.line(f"{directory}: a hook in {language['language']} for {', '.join(asked_at)}", style="bold green")
    steps = ["Build and test it:" if build else "Test it:", f"  cd {shlex.quote(str(directory))}"]
    for line in (*(f"  {file}" for file in sorted(texts)), *steps, *(f"  {one}" for one in (build, test) if one)):
        output.line(line)


def _stages(text: str) -> list[str]:
    """Returns the stages that were named, in the order of a turn."""
    named = text.replace(",", " ").split()
    require_known(named, STAGES, "--stages")
    if not named:
        raise typer.BadParameter(f"name one at least ({meant(None, STAGES)})", param_hint="--stages")
    return [stage for stage in STAGES if stage in named]


def contents(name: str, lang: str, asked_at: list[str]) -> dict[str, str]:
    """Returns the texts of a new hook's files, by their names."""
    language = _LANGUAGES[lang]
    others = [stage for stage in asked_at if stage not in _DECIDED]
    values = {
        "build": "",
        **language,
        "name": name,
        "what": f"{name}: a hook for an agent",
        "read_only": _listed(_READ_ONLY),
        "command": _listed(shlex.split(language["run"])),
        "stages": _listed(asked_at),
        "others": _listed(others),
        "others_words": " ".join(others),
    }
    held = {"first", *asked_at, *(["others"] if others else []), *(["build"] if "build" in language else [])}
    groups = {"others": [_names_of(stage) for stage in others]}
    templates = {**_templates(_TEMPLATES / "common"), **_templates(_TEMPLATES / lang)}
    return {
        file: render(template.read_text(encoding="utf-8"), held, values, groups) for file, template in templates.items()
    }


def _write(directory: Path, texts: Mapping[str, str]) -> None:
    try:
        if directory.exists() and any(directory.iterdir()):
            raise PicohookError(f"{escape(str(directory))} is not empty: name an empty directory, or a new one")
        for name, text in texts.items():
            with place(directory / name, make=0o755) as made:
                made.replace(text.encode())
    except OSError as error:
        raise PicohookError(f"{escape(str(directory))} cannot be written: {error.strerror}") from None


def _templates(folder: Traversable, before: str = "") -> dict[str, Traversable]:
    """Returns the templates in a directory and below, by the names of the files that are made of them."""
    found: dict[str, Traversable] = {}
    for entry in folder.iterdir():
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
    groups: Mapping[str, Sequence[Mapping[str, str]]],
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
                members = groups[names[0]]
        else:
            block += line
    return "".join([*made, _filled(block, values)])


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda found: values[found[1]], text)


def _listed(words: Collection[str]) -> str:
    """Returns the words as elements of a list, quoted as in TOML and in all of the languages."""
    return ", ".join(f'"{word}"' for word in words)
