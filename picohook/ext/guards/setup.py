"""`picohook shim VENDOR --guards`: guards in the user's own configuration."""

import typer

from ...cli import output
from ...config import user_places
from ...config.load import load
from ...errors import PicohookError
from ...wire import written_files

_TABLE = "[guards]\n"
_NAMES = ("picohook.toml", "picohook.yaml", "picohook.json")


def switch_on(context: typer.Context, value: bool) -> None:
    """Add `[guards]` to the user's own configuration, unless it has it. Raises `PicohookError` if it cannot be written."""
    if not value or context.params.get("remove"):
        return
    directory = user_places.configuration()
    path = next((directory / name for name in _NAMES if (directory / name).exists()), directory / _NAMES[0])
    if path.exists() and "guards" in load(path).tables:
        output.line(f"{path} has guards already")
        return
    if path.suffix != ".toml":
        raise PicohookError(
            f"{path} is not in TOML, so picohook does not edit it: add a table `guards`, which may be empty"
        )
    try:
        with written_files.place(path, own=True, make=0o700) as place:
            before = place.read()
            text = "" if before is None else before.decode().rstrip("\n") + "\n\n"
            place.replace((text + _TABLE).encode())
    except (OSError, UnicodeDecodeError) as error:
        raise PicohookError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    output.line(f"{path} has guards now: shell, git, secrets, network and self")
