"""Advice to a hook's author about its failure: the way out, which follows the cause."""

import os
import re
import sys
from collections.abc import Sequence

from ..model.spec import HookSpec
from ..wire.did_you_mean import file_meant, nearest
from .environment import environment

_NO_MODULE = re.compile(r"No module named '?(\w+)")
_NOT_SET = re.compile(r"KeyError|unset|unbound|not set|must be set|not found|missing|required|undefined", re.IGNORECASE)


def advice(spec: HookSpec, program: str, said: str) -> str:
    """Returns the way out of a failure, in parentheses, by the hook's own words; empty if the failure is not typical.

    `program` is the path of its program; empty if that is a shell, or not known.
    """
    found = _NO_MODULE.search(said)
    if found is not None and "is not a package" in said:
        return f" (a file {found[1]}.py hides the package: give it another name)"
    if found is not None:
        other = f", or name one that has it in the command: {sys.executable}" if found[1] == "picohook" else ""
        return f" (install {found[1]} for its Python{program and f', which is {program}'}{other})"
    if _NOT_SET.search(said):
        given = environment(spec, os.environ)
        lacks = [name for name in os.environ if name not in given and re.search(rf"\b{re.escape(name)}\b", said)]
        if lacks:
            return f' ({lacks[0]} is set here, and hooks do not inherit it: inherit_env = ["{lacks[0]}"])'
    return ""


def missing_file(arguments: Sequence[str], directory: str) -> str:
    """A file that the command names and that does not exist, as a way out; empty without one. This reads the disk."""
    for argument in arguments:
        path = os.path.join(directory, argument)
        if argument.startswith("-") or not os.path.splitext(argument)[1] or os.path.exists(path):
            continue
        near = file_meant(path)
        return f" ({path} does not exist{near and f': did you mean {near}?'})"
    return ""


def missing_program(program: str, place: str) -> str:
    """The way out where there is no such program; empty without a guess. This reads the disk.

    `place` is its path, or the PATH on which it was looked for.
    """
    if program.startswith("~") or "$" in program:
        return ' (~ and $NAME are for a shell: write the path out, or the command as run = "...")'
    if any(map(str.isspace, program)):
        return ' (a command has one element an argument; a shell takes it as run = "...")'
    if os.sep in program:
        near = file_meant(place)
    else:
        names: set[str] = set()
        for directory in place.split(os.pathsep):
            try:
                names.update(os.listdir(directory))
            except OSError:
                pass
        near = nearest(program, names, 0.8)
    return f" (did you mean {near}?)" if near else ""
