"""Advice on the packages to install for a part of picohook."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """Returns the command that installs the packages of an extra for this Python.

    It names the packages and not picohook, which pip would look up at an index, wherever this picohook came from.
    """
    import shlex  # the SDK imports this room
    import sys
    from importlib.metadata import PackageNotFoundError, requires  # slow to import

    try:
        parts = [line.partition(";") for line in requires("picohook") or ()]
    except PackageNotFoundError:
        return f"install the packages of picohook's extra {extra}"
    packages = [
        package.strip() for package, _, marker in parts if marker.replace("'", '"').strip() == f'extra == "{extra}"'
    ]
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])
