"""Reads one configuration file."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .document import Config
from .problems import Problems


def load(
    path: str | os.PathLike[str],
    *,
    found: bool = False,
    directory: str | os.PathLike[str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Config:
    """Read a configuration file. Nothing is started. Raises `ConfigError` with every mistake in the file.

    `found` means that the user did not name the file. Then it may set less, and its hooks need `trust.require_trust` first.
    `directory` is where hooks run whose paths are not relative to the file, instead of the current directory. Hooks of a file
    that was found run in its project. `given` has keys that are read in place of the file's own. A dialect that does not have
    such a key ignores it.
    """
    # Imported here because they need pydantic: importing this package stays cheap.
    from ..model.spec import Timeouts
    from . import dialects, files, syntax

    problems = Problems(str(path))
    given = {key: value for key, value in (given or {}).items() if value is not None}
    if given:
        from .native import check_of_caller

        check_of_caller(given, problems)
    file = Path(path)
    data = files.read(file, problems)
    document, repeated = syntax.parse(data, dialects.suffix_of(file), problems)
    name = dialects.name_of(document, file)
    dialect = dialects.find(name)
    for key in repeated:
        if dialect.section in {"", key[0]}:
            problems.add(key, "is given twice")
    # The directory's real path, but the file's own name: a link to a shared file still means the hooks beside the link.
    file = Path(os.path.realpath(file.parent)) / file.name
    project = dialects.project_of(file, name)
    config = Config(
        path=file,
        project=project,
        work=project if found else Path(directory or ".").absolute(),
        dialect=name,
        digest=hashlib.sha256(data).hexdigest(),
        found=found,
        timeouts=Timeouts(),
        given=given,
    )
    config = dialect.read.load()(document, problems, config)
    problems.check()
    return replace(config, hooks=tuple(spec.model_copy(update={"source": str(file)}) for spec in config.hooks))
