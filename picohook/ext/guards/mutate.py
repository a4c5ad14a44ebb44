"""Shell commands in other clothes: the same command, written in another way.

A guard that reads a call gives all of them the same answer. `alone` puts a command into each of the clothes, `together` into
several at once. `clothes.toml` has the clothes, and says what a template may have of a command.
"""

import base64
import contextlib
import functools
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

from .names import data

_DATA = data("clothes")
_LISTS = _DATA["lists"]
HARMFUL = tuple(name for table in ("words", "name", "path", "before", "around") for name in _DATA[table])
"""Clothes that a harmful command may wear. A guard stops it in each, or says that it cannot read it."""
HARMLESS = (*_LISTS["usual"], *_DATA["usual"])
"""Clothes that keep a harmless command usual, as people and agents wear them. A guard lets it pass in each."""
_UNFIT = {name: re.compile(pattern) for name, pattern in _DATA["unfit"].items()}
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_TOKEN = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\|&;<>()`$]|\$\w+|\$\{\w+\})+""")
_NAME = re.compile(r"[A-Za-z][\w.+-]*(?= |$)")


@functools.lru_cache(16)
def _worn(command: str) -> dict[str, str]:
    """The command in each of the clothes that fit it."""
    fields = {**_of_any(command), **_of_program(command)}
    made = {}
    if "\n" not in command and not command.startswith("#"):
        fields["abbreviated"] = _replaced(command, lambda word: _DATA["abbreviated"].get(word, word))
        fields["quoted"] = _replaced(command, functools.partial(re.sub, r"^--?[A-Za-z][\w-]*$", r"'\g<0>'"))
        for name, (start, new) in _DATA["path"].items():
            made[name] = _replaced(command, functools.partial(re.sub, rf"^{start}([\w./*@%+-]*)$", rf"{new}\1"))
    for table in ("words", "name", "before", "around", "usual"):
        for name, template in _DATA[table].items():
            with contextlib.suppress(KeyError):  # it does not fit
                made[name] = template.format_map(fields)
    return {name: text for name, text in made.items() if text != command}


def _replaced(line: str, change: Callable[[str], str]) -> str:
    """A line with other words after its first."""
    return _TOKEN.sub(lambda found: change(found[0]) if found.start() else found[0], line)


def _of_any(command: str) -> dict[str, str]:
    """The fields of any command."""
    if _is_unfit("c", command):
        return {}
    quote = shlex.quote
    made = {**dict.fromkeys(("c", "line", "document", "open"), command), "q": quote(command)}
    made["b"] = re.sub(r"([\\`])", r"\\\1", command)
    made["e"] = base64.b64encode(command.encode(errors="surrogatepass")).decode()
    if not _is_unfit("sh", command):
        single = re.sub(r"([\\'])", r"\\\1", command)
        made |= {"s": quote(command), "tabs": command, "p": quote(f"import os; os.system({command!r})")}
        made |= {"l": quote(f"system('{single}')"), "g": quote(f"!{command}")}
        made["n"] = quote(f"require('child_process').execSync({json.dumps(command)})")
    return {name: text for name, text in made.items() if not _is_unfit(name, command)}


def _is_unfit(field: str, command: str) -> bool:
    return field in _UNFIT and _UNFIT[field].search(command) is not None


def _of_program(command: str) -> dict[str, str]:
    """The fields of one program and its arguments."""
    found, bare = _NAME.match(command), _QUOTED.sub("", command)
    if not found or found[0] in _LISTS["shell"]:
        return {}
    name = found[0]
    path = ("/bin/" if name in _LISTS["busybox"] else "/usr/bin/") + name
    made = {"name": name, "head": name[0], "tail": name[1:], "last": name[-1], "path": path, "start": path[:-1]}
    made |= {"x": "".join(f"\\x{ord(one):02x}" for one in name), "o": "".join(f"\\{ord(one):03o}" for one in name)}
    made |= {"u": f"\\u{ord(name[0]):04x}", "rest": command[found.end() :]}
    made |= {field: command for field in ("program", "found", "unfed") if not _is_unfit(field, bare)}
    words = _TOKEN.findall(command)
    return made if _is_unfit("words", bare) or " ".join(words) != command else {**made, **_of_words(words)}


def _of_words(words: Sequence[str]) -> dict[str, str]:
    """The fields of a program's name and plain words."""
    command, name = " ".join(words), words[0]
    made = {"words": command, "tabbed": "\t".join(words)}
    if words[1:] and "," not in str(words[1:-1]):
        made["listed"] = ",".join(words)
    if name in _LISTS["busybox"]:
        made["applet"] = command
    if not re.search(r"['\"\\~]", command):
        made |= {"bare": command, "arguments": " ".join(words[1:]), "fields": "${IFS}".join(words)}
    before, after = words[: 1 + (name == "git")], words[1 + (name == "git") :]
    if name == "git":
        made["git"] = command.removeprefix(name)
    program = " ".join(before)
    long: dict[str, str] = _DATA["long"].get(program, {})
    known = re.compile(f"-[{''.join(long)}vdx]+" if long else r"(?!)")

    def spelled(change: Callable[[str], str]) -> str:
        """The words with their bundles of known options in another spelling."""
        return " ".join([*before, *(change(word[1:]) if known.fullmatch(word) else word for word in after)])

    made["long"] = spelled(lambda letters: " ".join(f"--{long[one]}" if one in long else f"-{one}" for one in letters))
    made["apart"] = spelled(lambda letters: " ".join(f"-{one}" for one in letters))
    made["reversed"] = spelled(lambda letters: f"-{letters[::-1]}")
    options = [word for word in after if word.startswith("-")]
    operands = [word for word in after if word not in options]
    if name == "rm" and "--" not in words:
        made["dashes"] = " ".join([name, *options, "--", *operands])
    if program in _LISTS["any-order"] and "--" not in words:
        made["options_last"] = " ".join([*before, *operands, *options])
    return made


def alone(command: str, clothes: Iterable[str] = HARMFUL) -> Iterator[tuple[str, str]]:
    """Yields the name of each of the clothes that fit, and the command in it."""
    worn = _worn(command)
    return ((name, worn[name]) for name in clothes if name in worn)


def wear(command: str, names: Iterable[str]) -> str:
    """Returns the command in those of the named clothes that fit, put on in this order."""
    for name in names:
        command = _worn(command).get(name, command)
    return command


def together(command: str, seed: int, clothes: Iterable[str] = HARMFUL, count: int = 3) -> tuple[list[str], str]:
    """Returns the names of up to `count` clothes, drawn by the seed, and the command in all of them."""
    names = list(clothes)
    Random(seed).shuffle(names)  # noqa: S311 - nothing is kept secret by it
    worn: list[str] = []
    for name in names:
        new = _worn(command).get(name)
        if new is not None and len(worn) < count:
            command, worn = new, [*worn, name]
    return worn, command
