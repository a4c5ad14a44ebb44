"""Remembers which pauses were used, so that none is used twice: not by another process, and not after a crash."""

import json
import os
import time
from collections.abc import Awaitable
from typing import Any, Protocol

from ..errors import PicohookError
from ..wire import written_files

VERSION = 1


class UsedPauses(Protocol):
    """A store of used pauses. Hosts that resume the same turns share one."""

    def use(self, pause: str, until: float) -> bool | Awaitable[bool]:
        """Note for good that a pause is used. Returns whether this was its first use; only True is a yes.

        The pause's life ends at `until`, in seconds since 1970. It has to be remembered for as long. Called in a thread. If
        this raises, or its awaitable does, the turn is not resumed.
        """


class UsedPausesFile:
    """A store in a file, by default one of this user. It is for the processes of one machine.

    It forgets a pause whose life is over, and from then on refuses all pauses that end as early. So a clock that is set back
    makes no pause new.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = path

    def use(self, pause: str, until: float) -> bool:
        """See `UsedPauses.use`. Raises `OSError` or `PicohookError` if the file cannot be used."""
        path = self._path or place_of_state("used-pauses.json")
        with written_files.place(path, own=True, make=0o700) as place:
            used, forgotten = _read(place.read(), path)
            now = time.time()
            forgotten = max([forgotten, *(end for end in used.values() if end < now)])
            if pause in used or until <= forgotten:
                return False
            left = {one: end for one, end in used.items() if end > forgotten} | {pause: until}
            document = {"version": VERSION, "forgotten": forgotten, "used": left}
            place.replace(json.dumps(document).encode(), mode=0o600)
        return True


def place_of_state(name: str) -> str:
    """The path of a file or directory with this user's state. Raises `PicohookError` if the user has no place for it."""
    import platformdirs  # only for a turn that is resumed, and for approvals

    directory = platformdirs.user_state_dir("picohook")
    if not os.path.isabs(directory):  # it would lie in the working directory, whose files are not the user's own
        raise PicohookError(f"there is no place for {name}: XDG_STATE_HOME or HOME does not name a whole path")
    return os.path.join(directory, name)


def _read(data: bytes | None, path: Any) -> tuple[dict[str, float], float]:
    """The used pauses with the ends of their lives, and the last end of those that are forgotten."""
    if data is None:
        return {}, 0.0
    try:
        document = json.loads(data)
        used = {str(one): float(end) for one, end in document["used"].items()}
        if document["version"] == VERSION:
            return used, float(document["forgotten"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise PicohookError(f"{path}: is damaged, or of a newer picohook. Remove it when no pause is left that was resumed")


USERS_FILE = UsedPausesFile()
"""The store of this user."""
