"""Advice on the packages to install for a part of picohook."""


def needs(what: str, package: str, extra: str) -> str:
    """Returns the message about a part of picohook whose extra is not installed."""
    return f"{what} needs {package}: {how_to_install(extra)}"


def how_to_install(extra: str) -> str:
    """Returns the command that installs the packages of an extra for this Python; with "", those that picohook always needs.

    It names the packages and not picohook, which pip would look up at an index, wherever this picohook came from.
    """
    import os  # slow to import, and the SDK imports this room
    import shlex
    import sys
    from importlib.metadata import PackageNotFoundError, requires

    pip = [sys.executable, "-m", "pip", "install"]
    try:
        parts = [line.partition(";") for line in requires("picohook") or ()]
    except PackageNotFoundError:  # a checkout that is not installed
        checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        return shlex.join([*pip, f"{checkout}[{extra}]" if extra else checkout])
    wanted = f'extra == "{extra}"' if extra else ""
    packages = [package.strip() for package, _, marker in parts if marker.replace("'", '"').strip() == wanted]
    return shlex.join([*pip, *packages])
