"""Recognises the entries that `picohook shim` writes into hook files of other systems. picohook itself never runs them."""

import os
import shlex
from collections.abc import Sequence

CLIENTS = tuple(
    os.sep + os.path.join("picohook", *place, "shim", "client.py") for place in (("ext", "vendors"), ("serve",))
)
"""The end of the path of the program that the entries of a user's file run, in this version and in older ones."""
ANYWHERE = ("picohook", "shim-client")
"""The command in the entries of a project's file: one that every machine with picohook has."""
OWN_PATH = "PICOHOOK_PYTHONPATH"
"""The variable that carries `PYTHONPATH` past the start of Python: one of its directories may be the project's."""
_APART = f'{OWN_PATH}="$PYTHONPATH" PYTHONPATH= '
_RUN = '%s "$@" || { [ $? = %d ] || echo "%s" >&2; exit %d; }'
_MISSING = "picohook cannot be started here, so it cannot be asked: is it installed? It has to be on the PATH"


def shim_command(program: Sequence[str], arguments: Sequence[str], code: int) -> str:
    """Returns the command that asks picohook. It exits with this code if the program cannot be started, or is killed.

    It runs `sh` itself, so the agent's shell does not matter. No module of the project runs in place of picohook's.
    """
    run = (_APART if program == ANYWHERE else "") + shlex.join(program)
    return shlex.join(["sh", "-c", _RUN % (run, code, _MISSING, code), "picohook", *arguments])


def is_shim(command: object) -> bool:
    """Whether a command of a hook file starts the client of `picohook shim`."""
    if not isinstance(command, str) or not any(part in command for part in (*CLIENTS, ANYWHERE[1])):
        return False
    try:
        words = shlex.split(command)
        if words[:2] == ["sh", "-c"]:
            words = shlex.split(words[2].removeprefix(_APART))
    except (ValueError, IndexError):
        return False
    return words[:2] == [*ANYWHERE] or any(word.endswith(CLIENTS) for word in words)
