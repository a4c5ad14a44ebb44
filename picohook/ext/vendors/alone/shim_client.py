"""`picohook shim-client`: the command in the entries of a project's hook file."""

import posix
import sys

import ask_host  # type: ignore[import-not-found]


def main() -> None:
    """Give hooks the `PYTHONPATH` that the client itself does without (see `shim_entry`), and ask the host."""
    own = posix.environ.pop(b"PICOHOOK_PYTHONPATH", b"")
    if own:
        posix.environ[b"PYTHONPATH"] = own
    elif not posix.environ.get(b"PYTHONPATH"):
        posix.environ.pop(b"PYTHONPATH", None)
    del sys.argv[1]
    ask_host.main()
