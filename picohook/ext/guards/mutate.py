"""Shell commands in other clothes: the same command, written in another way.

A guard that reads a call gives all of them the same answer. `alone` puts a command into each of the clothes, `together` into
several at once. The clothes of a harmless command are those that people and agents wear, since nobody disguises `npm test`.
`clothes.toml` has the clothes that are templates.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

Wear: TypeAlias = Callable[[str], str | None]
"""Returns the command in these clothes, or None if they do not fit."""

_DATA: dict[str, Any] = tomllib.loads((Path(__file__).parent / "clothes.toml").read_text(encoding="utf-8"))
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_TOKEN = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\|&;<>()`$]|\$\w+|\$\{\w+\})+""")
_NAME = re.compile(r"[A-Za-z][\w.+-]*(?= |$)")
_SPECIAL = re.compile(r"[|&;<>()`$\n{}#!*?\[\]]")
_NOT_IN_SH = re.compile(
    r"<\(|<<<|[<>]&|&>|\[\[|\$['\"]|\{[^}]*[,.]|/dev/(?:tcp|udp)|\$\{\w+[:/#]|=\(|\bfunction |\bsource "
)
_ENDED = re.compile(r"[\n#]|[&;]\s*$")
_OURS: frozenset[str] = frozenset(_DATA["words"]["shell"])
"""Words that the shell itself knows. No other program can run most of them."""
_APPLETS: frozenset[str] = frozenset(_DATA["words"]["busybox"])


def _clothes(values: Callable[[str, str], dict[str, str] | None]) -> Callable[[str], Wear]:
    """Returns what makes clothes of a template. `values` returns its values for a command, or None if it does not fit."""

    def made(template: str) -> Wear:
        def wear(command: str) -> str | None:
            found = values(template, command)
            return None if found is None else template.format(**found)

        return wear

    return made


@_clothes
def _around(template: str, command: str) -> dict[str, str] | None:
    """For the whole command."""
    in_sh = re.search(r"(^|[ /|])sh\b|\{[plng]\}", template)
    if (
        ("E9" in template and "E9" in command)
        or ("<<-" in template and "\n\t" in command)
        or ("{b}" in template and "`" in command)
        or (in_sh and _NOT_IN_SH.search(command))
        or all(line.startswith("#") for line in command.split("\n"))  # a block needs a command
        or (command.startswith("#") and re.search(r"(?:&&|\|\||;) \{c\}", template))  # nobody writes `true && # ...`
    ):
        return None
    single = "'" + command.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return {
        "c": command,
        "q": shlex.quote(command),
        "b": re.sub(r"([\\`])", r"\\\1", command),
        "e": base64.b64encode(command.encode(errors="surrogatepass")).decode(),
        "p": shlex.quote(f"import os; os.system({command!r})"),
        "l": shlex.quote(f"system({single})"),
        "n": shlex.quote(f"require('child_process').execSync({json.dumps(command)})"),
        "g": shlex.quote(f"!{command}"),
    }


@_clothes
def _before(template: str, command: str) -> dict[str, str] | None:
    """For one program and its arguments."""
    name, bare = _NAME.match(command), _QUOTED.sub("", command)
    odd = (
        "[|&;\n`({+]"
        if template.startswith("find")
        else "[|&;\n`(<]"
        if template.endswith("/dev/null")
        else "[|&;\n`(]"
    )
    return None if not name or name[0] in _OURS or re.search(odd, bare) else {"c": command}


@_clothes
def _named(template: str, command: str) -> dict[str, str] | None:
    """For the name of the first program."""
    found = _NAME.match(command)
    if not found or found[0] in _OURS:
        return None
    name = found[0]
    path = ("/bin/" if name in _APPLETS else "/usr/bin/") + name
    return {
        "name": name,
        "head": name[0],
        "tail": name[1:],
        "last": name[-1],
        "path": path[:-1] if "{last}" in template else path,
        "x": "".join(f"\\x{ord(one):02x}" for one in name),
        "o": "".join(f"\\{ord(one):03o}" for one in name),
        "u": f"\\u{ord(name[0]):04x}",
        "rest": command[found.end() :],
    }


def _tokens(change: Callable[[str], str | None]) -> Wear:
    """Returns clothes for the words of one line. `change` returns the new word, or None for a word that they do not fit."""

    def wear(command: str) -> str | None:
        if "\n" in command or command.startswith("#"):
            return None
        pieces, end = [], 0
        for found in _TOKEN.finditer(command):
            new = change(found[0]) if found.start() else None
            pieces += [command[end : found.start()], found[0] if new is None else new]
            end = found.end()
        return "".join([*pieces, command[end:]])

    return wear


def _path(start: str, new: str) -> Wear:
    """Returns clothes for unquoted paths that begin with `start`."""
    meant = re.compile(rf"{re.escape(start)}{'' if start == '/' else '(?=/|$)'}[\w./*@%+-]*")

    def change(word: str) -> str | None:
        if not meant.fullmatch(word) or word.startswith(("/dev/tcp", "/dev/udp", "/proc")):
            return None
        return new + word[len(start) :]

    return _tokens(change)


def _plain(change: Callable[[list[str]], str | None]) -> Wear:
    """Returns clothes for one program and words that the shell does not change, but for quotes and a tilde."""

    def wear(command: str) -> str | None:
        words = [found[0] for found in _TOKEN.finditer(command)]
        if not _NAME.match(command) or _SPECIAL.search(_QUOTED.sub("", command)) or " ".join(words) != command:
            return None
        return None if words[0] in _OURS else change(words)

    return wear


def _bare(change: Callable[[list[str]], str]) -> Wear:
    """Returns clothes for words without any quotes or tilde."""
    return _plain(lambda words: None if re.search(r"['\"\\~]", " ".join(words)) else change(words))


def _first(words: list[str]) -> tuple[str, int]:
    """Returns the program's name in the table of long options, and the place of its first argument."""
    return (" ".join(words[:2]), 2) if words[0] == "git" else (words[0], 1)


def _options(change: Callable[[str, Mapping[str, str]], list[str]]) -> Wear:
    """Returns clothes for options of the programs in the table. `change` gets a word and the program's long options."""

    def with_words(words: list[str]) -> str | None:
        program, first = _first(words)
        long = _DATA["long"].get(program)
        bundles = {
            word
            for word in words
            if re.fullmatch(r"-[A-Za-z]+", word) and long and set(word[1:]) <= {*long, "v", "d", "x"}
        }
        new = [new for word in words[first:] for new in (change(word[1:], long) if word in bundles else [word])]
        return " ".join([*words[:first], *new])

    return _plain(with_words)


def _options_last(words: list[str]) -> str | None:
    program, first = _first(words)
    if program not in {"rm", "chmod", "chown", "git clean", "git rm"} or "--" in words:
        return None
    return " ".join([*words[:first], *sorted(words[first:], key=lambda word: word.startswith("-"))])


def _dashes(words: list[str]) -> str | None:
    options = [word for word in words if word.startswith("-")]
    if words[0] != "rm" or "--" in words:
        return None
    return " ".join([words[0], *options, "--", *(word for word in words[1:] if word not in options)])


def _git_options(words: list[str]) -> str | None:
    return " ".join(["git", "--no-pager", "-C", ".", "-c", "a9.b=c", *words[1:]]) if words[0] == "git" else None


def _busybox(words: list[str]) -> str | None:
    return " ".join(["busybox", *words]) if words[0] in _APPLETS else None


def _long(letters: str, long: Mapping[str, str]) -> list[str]:
    return [f"--{long[one]}" if one in long else f"-{one}" for one in letters]


_WORDS: dict[str, Wear] = {
    "array": _plain(lambda words: f'a9=({" ".join(words)}); "${{a9[@]}}"'),
    "variable of all words": _bare(lambda words: f"v9='{' '.join(words)}'; $v9"),
    "words in braces": _plain(
        lambda words: f"{{{','.join(words)}}}" if words[1:] and "," not in str(words[1:-1]) else None
    ),
    "IFS": _bare("${IFS}".join),
    "tabs": _plain("\t".join),
    "busybox": _plain(_busybox),
    "words from xargs": _bare(lambda words: f"echo {' '.join(words[1:])} | xargs {words[0]}"),
    "long options": _options(_long),
    "unbundled options": _options(lambda letters, _: [f"-{one}" for one in letters]),
    "options turned round": _options(lambda letters, _: [f"-{letters[::-1]}"]),
    "abbreviated options": _tokens(_DATA["abbreviated"].get),
    "options last": _plain(_options_last),
    "two dashes": _plain(_dashes),
    "options of git": _plain(_git_options),
    "quoted options": _tokens(lambda word: f"'{word}'" if re.fullmatch(r"--?[A-Za-z][\w-]*", word) else None),
}

HARMFUL: dict[str, Wear] = {
    **_WORDS,
    **{name: _named(template + "{rest}") for name, template in _DATA["name"].items()},
    **{name: _path(start, new) for name, (start, new) in _DATA["path"].items()},
    **{name: _before(template) for name, template in _DATA["before"].items()},
    **{name: _around(template) for name, template in _DATA["around"].items()},
}
"""Clothes that a harmful command may wear. A guard stops it in each, or says that it cannot read it."""


def _after(text: str) -> Wear:
    return lambda command: None if _ENDED.search(command) else f"{command} {text}"


HARMLESS: dict[str, Wear] = {
    **{name: HARMFUL[name] for name in _DATA["usual"]["worn"]},
    **{name: _around(template) for name, template in _DATA["usual"]["around"].items()},
    **{name: _after(text) for name, text in _DATA["usual"]["after"].items()},
}
"""Clothes that keep a harmless command usual. A guard lets it pass in each."""


def alone(command: str, clothes: Mapping[str, Wear] = HARMFUL) -> Iterator[tuple[str, str]]:
    """Yields the name of each of the clothes that fit, and the command in it."""
    for name, wear in clothes.items():
        worn = wear(command)
        if worn is not None and worn != command:
            yield name, worn


def wear(command: str, names: Iterable[str], clothes: Mapping[str, Wear] = HARMFUL) -> str:
    """Returns the command in those of the named clothes that fit, put on in this order."""
    for name in names:
        command = clothes[name](command) or command
    return command


def together(command: str, seed: int, clothes: Mapping[str, Wear] = HARMFUL, count: int = 3) -> tuple[list[str], str]:
    """Returns the names of up to `count` clothes, drawn by the seed, and the command in all of them."""
    names = list(clothes)
    Random(seed).shuffle(names)  # noqa: S311 - nothing is kept secret by it
    worn: list[str] = []
    for name in names:
        new = clothes[name](command)
        if new is not None and new != command:
            command, worn = new, [*worn, name]
            if len(worn) == count:
                break
    return worn, command
