"""Builds a wheel whose core is compiled, if `PICOHOOK_COMPILE=1` is set; otherwise the wheel is plain Python.

The compiler is mypyc, which takes the same files. It makes a C extension of each module in `COMPILED`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = (
    "engine/apply_decision",
    "engine/chain",
    "engine/seat",
    "model/apply_edit",
    "model/encoded",
    "model/replies",
    "observe/metrics",
    "protocol/known_reply",
    "protocol/lines",
    "protocol/peer",
    "transport/channel",
)
"""The modules through which every question passes, without those whose classes users make, subclass or pickle.

In them, no slice of bytes may begin behind its end: what mypyc makes of one raises `SystemError`.
"""

MYPY = "2.4.1"
"""The version whose compiler and runtime the core was tried with. `MENDED` has text of it."""

MENDED = {
    "exc_ops.c": (
        "type = (PyObject *)Py_TYPE(value);",
        """type = (PyObject *)Py_TYPE(value);
        traceback = PyException_GetTraceback(value);
        Py_XDECREF(traceback); // the value has it
        traceback = traceback ? traceback : Py_None;""",
    ),
    "misc_ops.c": ("CallFunctionObjArgs(_m, type, value, traceback, NULL)", "CallOneArg(_m, value)"),
}
"""In files of mypyc's runtime, what is replaced by what.

A coroutine that it compiles loses the traceback of an exception that is thrown into it, and throws it into what it awaits with
three arguments. Python 3.12 and newer warn of that. Where a warning is an error, a call that was cancelled would go on.
"""


class CompileCore(BuildHookInterface):
    """Compiles modules, and puts them beside their sources in the wheel. Python prefers them when it imports."""

    def dependencies(self) -> list[str]:
        """What a compiled build needs: the compiler, and the libraries whose types the core uses."""
        return [f"mypy=={MYPY}", "setuptools", *self.metadata.core.dependencies] if self._wanted else []

    @property
    def _wanted(self) -> bool:
        return self.target_name == "wheel" and os.environ.get("PICOHOOK_COMPILE") == "1"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the extensions to the wheel. An editable one has none: they would be older than their sources."""
        if not self._wanted or version == "editable":
            return
        self._scratch = Path(tempfile.mkdtemp())
        for made in _compile(self._scratch):
            build_data["force_include"][str(made)] = str(made.relative_to(self._scratch / "lib"))
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact_path: str) -> None:
        """Delete the extensions when the wheel has them."""
        if hasattr(self, "_scratch"):
            shutil.rmtree(self._scratch)


def _compile(scratch: Path) -> list[Path]:
    """Returns the extensions. Raises `RuntimeError` if there is no C compiler, or mypyc has another runtime."""
    from mypyc.build import include_dir, mypycify  # a plain build does not have these
    from setuptools import Distribution
    from setuptools.errors import CompileError

    options = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={scratch / 'cache'}"]
    sources = [f"picohook/{module}.py" for module in COMPILED]
    # No debugging information: it has the paths of this build, so two builds would differ.
    built = {"opt_level": "3", "debug_level": "0", "target_dir": str(scratch / "c"), "group_name": "picohook"}
    extensions = mypycify([*options, *sources], **built)
    mended = _mend(Path(include_dir()), scratch / "runtime")
    for extension in extensions:
        extension.include_dirs.insert(0, str(mended))
    build = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
    build.build_lib, build.build_temp = str(scratch / "lib"), str(scratch / "o")
    build.ensure_finalized()
    try:
        build.run()
    except CompileError as error:
        way_out = "install a C compiler, or install without PICOHOOK_COMPILE: then it is plain Python"
        raise RuntimeError(f"the core cannot be compiled: {error}; {way_out}") from None
    return sorted(path for path in (scratch / "lib").rglob("*") if path.is_file())


def _mend(runtime: Path, directory: Path) -> Path:
    """Write the files of this runtime that `MENDED` names into this directory, mended. Returns the directory.

    Raises `RuntimeError` if a file is another one than the mend is for.
    """
    directory.mkdir()
    for name, (wrong, right) in MENDED.items():
        file = runtime / name
        source = file.read_text() if file.is_file() else ""
        if (found := source.count(wrong)) != 1:
            way_out = f"compile with mypy {MYPY}, or install without PICOHOOK_COMPILE: then it is plain Python"
            raise RuntimeError(
                f"the core cannot be compiled: {file} has the text that is mended {found} times, not once; {way_out}"
            )
        (directory / name).write_text(source.replace(wrong, right))
    return directory
