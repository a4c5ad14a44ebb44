"""`picohook`, and `python -m picohook`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:
        # Asked often, and by scripts: what all other commands need is not imported for it.
        from . import __version__  # noqa: PLC0415

        try:
            os.write(1, f"picohook {__version__}\n".encode())
        except OSError:
            sys.exit(1)
        return
    try:
        from .cli.app import run  # noqa: PLC0415

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
