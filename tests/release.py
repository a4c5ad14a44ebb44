"""All of a release that needs no package index: `make release-check`, with `TAG=v1.2.3` for the tag of a release.

It builds the source distribution, and from it a plain wheel and one with a compiled core, twice, and compares the bytes. It
checks their metadata, and tries each in an empty environment of each Python that is here. What would be published is then in
`build/dist`, with an SBOM and the section of the changelog.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes
from pathlib import Path

from bare import try_bare

ROOT = Path(__file__).parent.parent
DIST = ROOT / "build" / "dist"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = re.search(r'VERSION = "([^"]+)"', (ROOT / "picohook/wire/version.py").read_text())[1]
PUBLISHED: frozenset[str] = frozenset()
"""Addresses that the metadata may name, because they exist."""
LINK = re.compile(r"\]\((?!#)([^)\s]+)\)")
ADDRESS = re.compile(r"https?://[^\s)>\"'`]+")
EXTENSION = sysconfig.get_config_var("EXT_SUFFIX")
AT_ONCE = 2


def run(*command: str | Path, env: dict[str, str] | None = None, **settings) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= env or {}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env=environment, check=False, **settings
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def tracked() -> set[str]:
    """The files that git has; empty where this is no checkout."""
    if not (ROOT / ".git").exists():
        return set()
    return set(run("git", "ls-files", "-z", cwd=ROOT).split("\0")) - {""}


def when() -> dict[str, str]:
    """The time that archives and the SBOM name: that of the last commit, unless the environment has one."""
    if "SOURCE_DATE_EPOCH" in os.environ or not (ROOT / ".git").exists():
        return {}
    return {"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()}


def build(place: Path) -> list[Path]:
    """Returns the source distribution, and the plain and the compiled wheel that were made of it."""
    out, unpacked = place / "dist", place / "source"
    pack = [sys.executable, "-m", "build", "--outdir", out]
    run(*pack, "--sdist", ROOT, env=when())
    (archive,) = out.iterdir()
    with tarfile.open(archive) as packed:
        packed.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    run(*pack, "--wheel", source, env=when())
    (plain,) = out.glob("*.whl")
    run(*pack, "--wheel", source, env={**when(), "PICOHOOK_COMPILE": "1"})
    (compiled,) = set(out.glob("*.whl")) - {plain}
    return [archive, plain, compiled]


def differences(one: list[Path], other: list[Path]) -> list[str]:
    """What two builds have made differently, in sentences."""
    return [
        f"two builds of {first.name} differ"
        for first, second in zip(one, other, strict=True)
        if (first.name, first.read_bytes()) != (second.name, second.read_bytes())
    ]


def stray(archive: Path) -> list[str]:
    """What the source distribution has, and git does not, in sentences."""
    known = tracked()
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()} - {"PKG-INFO"}
    return [f"{name} is in {archive.name}, and not in git" for name in sorted(names - known)] if known else []


def misleading(wheel: Path) -> list[str]:
    """What of the wheel's files and metadata would mislead its readers, in sentences."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (path,) = [name for name in names if name.endswith("METADATA")]
        metadata = message_from_bytes(archive.read(path))
    described = str(metadata.get_payload())
    wrong = [
        f"{wheel.name} has no {name}" for name in ("picohook/py.typed", "picohook/__init__.py") if name not in names
    ]
    wrong += [f"{name} is in {wheel.name}" for name in names if name.startswith(("tests/", "docs/"))]
    wrong += [
        f"the description links to {target}, which a package index does not have" for target in LINK.findall(described)
    ]
    named = {address for value in [*metadata.values(), described] for address in ADDRESS.findall(str(value))}
    wrong += [f"the metadata names {address}, which is not in PUBLISHED" for address in sorted(named - PUBLISHED)]
    if metadata["Version"] != VERSION:
        wrong.append(f"{wheel.name} says that it is {metadata['Version']}, and the source {VERSION}")
    native = {name for name in names if name.endswith(EXTENSION)}
    bare = [name for name in native if "/" in name and name.removesuffix(EXTENSION) + ".py" not in names]
    wrong += [f"{wheel.name} has {name} without its source" for name in sorted(bare)]
    if bool(native) == wheel.name.endswith("-none-any.whl"):
        said = (
            "extension modules, and its name says that it has none"
            if native
            else "no extension modules, and its name says that it has"
        )
        wrong.append(f"{wheel.name} has {said}")
    return wrong


def section(changelog: str, version: str, *, released: bool) -> str:
    """The changelog's section about this version. Ends the program if there is none."""
    heading = rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d"
    if not released:
        heading = rf"(?:{heading}|\[Unreleased\]\n+This will be {re.escape(version)}\b)"
    found = re.search(rf"^## {heading}.*?(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        sys.exit(f"CHANGELOG.md has no section '## [{version}] - YEAR-MONTH-DAY': rename [Unreleased] to it")
    return found[0].strip() + "\n"


def pythons() -> dict[str, Path | None]:
    """For each version that pyproject.toml names, the Python of it that is here."""
    marked = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    return {version: python(version) for version in marked}


def python(version: str) -> Path | None:
    """A Python of this version, this one if it is; one that pyenv has is found, too."""
    if version == "{}.{}".format(*sys.version_info):
        return Path(sys.executable)
    latest = shutil.which("pyenv") and subprocess.run(
        ["pyenv", "latest", version], capture_output=True, text=True, check=False
    )
    environment = {**os.environ, **({"PYENV_VERSION": latest.stdout.strip()} if latest and latest.stdout else {})}
    try:
        command = [f"python{version}", "-c", "import sys; print(sys.executable)"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except OSError:
        return None
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def install(base: Path, place: Path, *what: str | Path) -> Path:
    """Makes an empty environment with these packages. Returns its Python."""
    run(base, "-m", "venv", "--without-pip", place)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", place]
    run(*pip, "install", "--quiet", *what)
    run(*pip, "check")
    return place / "bin" / "python"


def try_it(distribution: Path, base: Path, source: Path, place: Path) -> str:
    """Installs it into an empty environment, and plays the demo with what is installed. Returns what was seen."""
    python = install(base, place, f"{distribution}[cli]")
    core = "import picohook.engine.chain as core, sys; print(core.__file__); print('%d.%d.%d' % sys.version_info[:3])"
    where, version = run(python, "-c", core, cwd=place).split()
    if not Path(where).is_relative_to(place):
        sys.exit(f"picohook was imported from {where}, and not from {place}")
    compiled = not where.endswith(".py")
    if compiled != (distribution.suffix == ".whl" and not distribution.name.endswith("-none-any.whl")):
        sys.exit(f"{distribution.name} has installed {where}")
    said = run(place / "bin" / "picohook", "--version", cwd=place).strip()
    if said != f"picohook {VERSION}":
        sys.exit(f"{distribution.name} says {said!r} of itself")
    played = run(python, source / "hooks_examples" / "demo.py", cwd=place)
    core = "a compiled core" if compiled else "plain Python"
    return f"{distribution.name}: on {version} alone, {core}; the demo prints {len(played.splitlines())} lines"


def preferred(here: Path, base: Path, scratch: Path) -> str:
    """The file that pip takes of these for this Python."""
    out = Path(tempfile.mkdtemp(dir=scratch))
    environment = out / "venv"
    run(base, "-m", "venv", "--without-pip", environment)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", environment]
    run(*pip, "download", "--quiet", "--no-deps", "--no-index", "--find-links", here, "--dest", out, "picohook")
    (taken,) = [path.name for path in out.iterdir() if path != environment]
    return taken


def bill(wheel: Path, place: Path, target: Path) -> int:
    """Writes what an installation without extras consists of, as CycloneDX. Returns the number of its parts."""
    from cyclonedx.schema import SchemaVersion  # the tests of this file need not have it
    from cyclonedx.validation.json import JsonStrictValidator

    python = install(Path(sys.executable), place, wheel)
    tool = Path(sys.executable).with_name("cyclonedx-py")
    run(tool, "environment", python, "--output-reproducible", "--of", "JSON", "-o", target, env=when())
    document = json.loads(target.read_text())
    (own,) = [part for part in document["components"] if part["name"] == "picohook"]
    document["components"].remove(own)
    own |= {"type": "application", "purl": f"pkg:pypi/picohook@{VERSION}"}
    own["externalReferences"][0]["url"] = wheel.name  # it was installed from a temporary directory
    document["metadata"]["component"] = own
    target.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    if wrong := JsonStrictValidator(SchemaVersion.from_version(document["specVersion"])).validate_str(
        target.read_text()
    ):
        sys.exit(f"{target.name} is not valid: {wrong}")
    return len(document["components"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tag", default="", help="the tag of a release, such as v1.2.3; the changelog must have its date"
    )
    tag = parser.parse_args().tag
    if tag and tag != f"v{VERSION}":
        sys.exit(f"the tag {tag} is not v{VERSION}, which picohook/wire/version.py says: change one of them")
    notes = section((ROOT / "CHANGELOG.md").read_text(), VERSION, released=bool(tag))
    with tempfile.TemporaryDirectory(prefix="picohook-release-") as name:
        scratch = Path(name)
        print(f"building picohook {VERSION} twice ...", flush=True)
        made, again = (build(scratch / place) for place in ("one", "other"))
        archive, plain, compiled = made
        wrong = [*differences(made, again), *stray(archive), *misleading(plain), *misleading(compiled)]
        if wrong:
            sys.exit("\n".join(wrong))
        print("both builds have the same bytes")
        print(run(sys.executable, "-m", "twine", "check", "--strict", *made).strip(), flush=True)
        (source,) = (scratch / "one" / "source").iterdir()
        here = pythons()
        there = {version: base for version, base in here.items() if base}
        own = "{}.{}".format(*sys.version_info)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            tried = [
                pool.submit(try_it, made[kind], base, source, scratch / f"{version}-{kind}")
                for version, base in there.items()
                for kind in range(len(made))
                if kind < made.index(compiled) or version == own
            ]
            for each in tried:
                print(each.result(), flush=True)
        for version in here.keys() - there.keys():
            print(f"was not tried: there is no python{version}")
        for version, base in there.items():
            taken = preferred(archive.parent, base, scratch)
            if taken != (compiled if version == own else plain).name:
                sys.exit(f"of these, pip takes {taken} on Python {version}")
        print("pip takes the compiled wheel where it fits, and otherwise the plain one")
        try_bare(plain)
        run(sys.executable, ROOT / "docs" / "site" / "pages.py")
        print("the site is built")
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir(parents=True)
        for file in made:
            shutil.copy(file, DIST)
        parts = bill(plain, scratch / "bill", DIST / f"picohook-{VERSION}.cdx.json")
        (DIST / "notes.md").write_text(notes)
        sums = "".join(
            f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(DIST.iterdir())
        )
        (DIST / "SHA256SUMS").write_text(sums)
    print(
        f"{DIST.relative_to(ROOT)} has them, an SBOM of {parts} components and {len(notes.split())} words of the changelog:"
    )
    print(sums, end="")


if __name__ == "__main__":
    main()
