"""Builds wheel and source distribution, installs each into an empty environment, and tries it there: `make release-check`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email import message_from_bytes
from pathlib import Path

from bare import try_bare

ROOT = Path(__file__).parent.parent
PUBLISHED: frozenset[str] = frozenset()
"""Addresses that the metadata may name, because they exist."""
LINK = re.compile(r"\]\((?!#)([^)\s]+)\)")
ADDRESS = re.compile(r"https?://[^\s)>\"'`]+")


def run(*command: str | Path, **settings) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env=environment, check=False, **settings
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def check_metadata(wheel: Path) -> None:
    """End with a message when the wheel's metadata would mislead its readers."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (path,) = [name for name in names if name.endswith("METADATA")]
        metadata = message_from_bytes(archive.read(path))
    described = str(metadata.get_payload())
    wrong = [
        f"the package has no {name}" for name in ("picohook/py.typed", "picohook/__init__.py") if name not in names
    ]
    wrong += [f"{name} is in the package" for name in names if name.startswith(("tests/", "docs/"))]
    wrong += [
        f"the description links to {target}, which a package index does not have" for target in LINK.findall(described)
    ]
    named = {address for value in [*metadata.values(), described] for address in ADDRESS.findall(str(value))}
    wrong += [f"the metadata names {address}, which is not in PUBLISHED" for address in sorted(named - PUBLISHED)]
    if metadata["Version"] not in (ROOT / "CHANGELOG.md").read_text():
        wrong.append(f"CHANGELOG.md does not mention {metadata['Version']}")
    if wrong:
        sys.exit("\n".join(wrong))


def try_it(distribution: Path, source: Path, scratch: Path) -> None:
    """Install it into an empty environment, and run the demo with what is installed."""
    place = scratch / distribution.name
    run(sys.executable, "-m", "venv", place)
    python = place / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{distribution}[cli]")
    run(python, "-m", "pip", "check")
    where = run(python, "-c", "import picohook; print(picohook.__file__)", cwd=scratch).strip()
    if not Path(where).is_relative_to(place):
        sys.exit(f"picohook was imported from {where}, and not from {place}")
    run(place / "bin" / "picohook", "--version", cwd=scratch)
    played = run(python, source / "hooks_examples" / "demo.py", cwd=scratch)
    print(f"{distribution.name}: installed alone, {run(python, '-m', 'picohook', '--version').strip()}, "
          f"the demo prints {len(played.splitlines())} lines")  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        run(sys.executable, "-m", "build", "--outdir", scratch / "dist", ROOT)
        (wheel,) = (scratch / "dist").glob("*.whl")
        (archive,) = (scratch / "dist").glob("*.tar.gz")
        check_metadata(wheel)
        print(run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive).strip())
        with tarfile.open(archive) as packed:
            packed.extractall(scratch / "source", filter="data")
        (source,) = (scratch / "source").iterdir()
        try_bare(wheel)
        for distribution in (wheel, archive):
            try_it(distribution, source, scratch)


if __name__ == "__main__":
    main()
