"""The file that keeps trust: for each trusted configuration, the digests of the files that trust covers.

Version 2 is `{"version": 2, "trusted": {CONFIGURATION: {FILE: DIGEST}}}`. Version 1 was the table under `trusted` alone. It can
be read, and the next write makes it version 2.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..config import files, user_places
from ..config.problems import Problems
from ..errors import ConfigError, Problem, TrustError
from ..wire.text import escape

VERSION = 2
MOST_BYTES_OF_STORE = 16 << 20
"""The most bytes of the file."""

Digests = dict[str, str]


class NewerStoreError(TrustError):
    """A newer picohook wrote the file. This version neither reads nor replaces it."""


def path() -> Path:
    """The path of the file. Raises `ConfigError` if the user has no directory for it."""
    return user_places.configuration() / "trust.json"


def read() -> dict[str, Digests]:
    """The digests, by the path of the configuration. Raises `TrustError` if the file cannot be used."""
    file = path()
    if not os.path.lexists(file):
        return {}
    try:
        document: Any = json.loads(files.read(file, Problems(str(file)), MOST_BYTES_OF_STORE))
    except ConfigError as error:
        raise TrustError(error.problems) from None
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and "version" in document:
        version = document["version"]
        if isinstance(version, int) and version > VERSION:
            message = f"is of version {version}, and this picohook knows {VERSION}, so nothing is trusted"
            raise NewerStoreError([Problem(escape(str(file)), "", message, "update picohook")])
        document = document.get("trusted") if version == VERSION else None
    tables = list(document.values()) if isinstance(document, dict) else [None]
    if not all(isinstance(table, dict) and all(isinstance(one, str) for one in table.values()) for table in tables):
        problem = Problem(escape(str(file)), "", "is damaged, so nothing is trusted", "picohook trust replaces it")
        raise TrustError([problem])
    return dict(document)


@contextlib.contextmanager
def changed() -> Iterator[Callable[[dict[str, Digests]], None]]:
    """Keeps other programs from changing the file. Yields a function that replaces its table. Raises `ConfigError`."""
    with files.place(path()) as place:
        yield lambda known: place.replace(files.encoded({"version": VERSION, "trusted": known}), mode=0o600)
