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
    if sys.argv[1:2] == ["shim-client"]:
        # The entries of a project's hook file run it at each event.
        import posix  # for this one alone

        from .ext.vendors.shim.alone import ask_host

        own = posix.environ.pop(b"PICOHOOK_PYTHONPATH", b"")  # see `shim_entry`
        if own:
            posix.environ[b"PYTHONPATH"] = own
        elif not posix.environ.get(b"PYTHONPATH"):
            posix.environ.pop(b"PYTHONPATH", None)
        del sys.argv[1]
        ask_host.main()
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
        _complain(
            f"the Python package {package} is missing, which the command line needs: install picohook without --no-deps"
        )
        sys.exit(1)


def _complain(text: str) -> None:
    if sys.stderr:
        sys.stderr.write(f"Error: {text}\n")


if __name__ == "__main__":
    main()
