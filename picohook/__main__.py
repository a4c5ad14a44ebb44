"""The entry point of `picohook` and of `python -m picohook`."""

from __future__ import annotations

import errno
import gc
import os
import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:
        # Scripts ask it often: the imports of the other commands are left out.
        from .wire.version import VERSION

        try:
            os.write(1, f"picohook {VERSION}\n".encode())
        except OSError as error:
            if error.errno not in {errno.EPIPE, errno.EBADF}:  # the reader has gone
                _complain(f"standard output cannot be written: {error.strerror}")
            sys.exit(1)
        return
    if sys.argv[1:2] and "-" in sys.argv[1][1:]:
        _run_alone(sys.argv[1].replace("-", "_"))
    gc.disable()  # imports make many objects and no garbage; `load_command` enables it
    try:
        from .cli.app import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in {"", "picohook"}:
            raise
        from .wire.extras import needs

        _complain(needs("the command line", package, "cli" if package in {"typer", "rich", "yaml"} else ""))
        sys.exit(1)


def _run_alone(name: str) -> None:
    """Run a program of an extension, `ext/*/alone/NAME.py`, if there is one.

    An agent starts it at each event. So it is not a command: neither the extension's row nor the command line is imported.
    """
    extensions = os.path.join(os.path.dirname(__file__), "ext")
    for folder in os.listdir(extensions) if name.isidentifier() and os.path.isdir(extensions) else ():
        place = os.path.join(extensions, folder, "alone")
        if os.path.isfile(os.path.join(place, f"{name}.py")):
            sys.path.insert(0, place)
            program = __import__(name)
            del sys.path[0]
            program.main()


def _complain(text: str) -> None:
    if sys.stderr:
        sys.stderr.write(f"Error: {text}\n")


if __name__ == "__main__":
    main()
