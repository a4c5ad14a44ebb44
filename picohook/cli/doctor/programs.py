"""The programs of hooks: their paths, versions and permissions."""

import functools
import os
import re
import subprocess
from collections.abc import Iterator

from ...errors import HookCrashedError
from ...model.spec import HookSpec
from ...process.plan import plan
from ...projects import hook_files
from ..configuration import missing_script, program
from .files import exposed_file
from .findings import Finding, Level, about

_TELLS_ITS_VERSION = re.compile(r"python[\d.]*|pypy[\d.]*|node(js)?|deno|bun|ruby[\d.]*|perl|php|bash|jq|java")
_VERSION_WAIT = 5.0
_SHOWN = 80


def examine(spec: HookSpec, *, may_run: bool) -> Iterator[Finding]:
    """Yields the findings about the programs of one hook. An interpreter is run for its version only if `may_run`."""
    for member in spec.members:
        yield from _examine(member, may_run=may_run)


def _examine(spec: HookSpec, *, may_run: bool) -> Iterator[Finding]:
    try:
        found = program(spec)
        missing = missing_script(spec.examined)
    except HookCrashedError as error:
        yield Finding(
            Level.ERROR, about(spec), "command", str(error), f"install it, or correct the hook's command: {spec.runs}"
        )
        return
    if found is None:
        yield Finding(Level.OK, about(spec), "command", f"it runs no program ({spec.kind}: {spec.runs})")
        return
    if missing:
        hint = f"put it there, or correct the hook's command: {spec.runs}"
        yield Finding(Level.ERROR, about(spec), "command", f"there is no {missing}", hint)
    version = _version(spec, found) if may_run else ""
    yield Finding(Level.OK, about(spec), "command", f"runs {found}" + (f" ({version})" if version else ""))
    yield from _permissions(spec.examined, found)


def _permissions(spec: HookSpec, found: str) -> Iterator[Finding]:
    named = {path for path in hook_files.arguments(spec) if os.path.isfile(path)}
    exposed = [(Level.ERROR, how) for path in sorted(named) if (how := exposed_file(path))]
    if found not in named and os.path.isabs(found) and (how := exposed_file(found)):
        exposed.append((Level.WARNING, how))  # it may belong to the system
    for level, how in exposed:
        yield Finding(level, about(spec), "permissions", *how)
    if not exposed:
        yield Finding(Level.OK, about(spec), "permissions", "no other user can change what it runs")


def _version(spec: HookSpec, found: str) -> str:
    """Returns the version of an interpreter that is known to print it at once and to do nothing else."""
    name = os.path.basename(found)
    if spec.python is not None or not _TELLS_ITS_VERSION.fullmatch(name):
        return ""
    version = _ask(found, frozenset(plan(spec, os.environ).env.items()))
    return version if name.rstrip("0123456789.") in version.lower() else f"{name} {version}".strip()


@functools.cache
def _ask(interpreter: str, environment: frozenset[tuple[str, str]]) -> str:
    try:
        printed = subprocess.check_output(  # noqa: S603 - one of the programs named above
            [interpreter, "--version"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            cwd="/",
            timeout=_VERSION_WAIT,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return printed.decode("utf-8", "replace").strip().partition("\n")[0][:_SHOWN]
