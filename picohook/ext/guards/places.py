"""Paths and hosts of a call: where they are, as far as a decision about them needs to know."""

from __future__ import annotations

import ipaddress
import os.path
import re
import socket
import unicodedata
from typing import NamedTuple

from .words import DEFENDED, OPEN, PLAIN, UNKNOWN, unknown

GENERATED = re.compile(
    r"node_modules|dist|build|out|target|\.?venv|env|__pycache__|\.[\w.*-]*_cache|\.next|\.nuxt|\.cache|\.tox|\.nox|\.parcel-cache"
    r"|\.turbo|coverage|htmlcov|\.nyc_output|\.eggs|[\w.*-]+\.egg-info|\.gradle|\.svelte-kit|\.output|\.vite|\.angular|_build|\.terraform"
    r"|obj|tmp|\.tmp|temp|logs?|\.coverage|playwright-report|test-results|storybook-static|DerivedData|Pods|\.dart_tool|cmake-build-\w+|_site"
    r"|build-\w+|\.ipynb_checkpoints|\.expo|\.webpack|public/build|\.docusaurus|vendor/bundle|generated|\.aws-sam|\.serverless|\.vercel"
)
"""Names of directories that tools make anew."""
_TEMPORARY = (
    "/tmp",
    "/var/tmp",
    "/private/tmp",
    "/private/var/tmp",
    "/dev/shm",
    "/var/folders",
    "/private/var/folders",
)
_NULL = re.compile(r"/dev/(?:null|stdout|stderr|stdin|tty|zero|u?random|full|fd/\d+|ptmx)|/proc/self/fd/\d+")
_SYSTEM = re.compile(
    r"/(?:etc|usr|bin|sbin|lib|lib64|boot|var|opt|root|sys|proc|run|srv|Library|System|Applications|private/etc|private/var|nix|efi)(?:/|$)"
)
_PROFILE = re.compile(
    r"\.(?:bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zprofile|zshenv|zlogin|kshrc|cshrc|tcshrc|inputrc|pam_environment|xprofile|xinitrc"
    r"|gitconfig|npmrc|pypirc|condarc|curlrc|wgetrc|netrc|vimrc|tmux\.conf)"
    r"|\.ssh(?:/.*)?|\.config/(?:fish|autostart|systemd|git|pip|environment\.d)/.*|\.local/share/systemd/.*|Library/LaunchAgents/.*|\.gnupg(?:/.*)?"
    r"|\.aws(?:/.*)?|\.kube(?:/.*)?|\.docker/config\.json|bin/.*|\.local/bin/.*"
)
_LOCAL = re.compile(r"localhost|.*\.localhost|.*\.local|.*\.internal\.test|0|host\.docker\.internal")
_BY_DNS = re.compile(r".*\.(?:nip\.io|sslip\.io|xip\.io|localtest\.me|lvh\.me|rbndr\.us)")
_METADATA = frozenset(
    ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "192.0.0.192")
)
_METADATA_NAMES = re.compile(
    r"metadata(?:\.google\.internal|\.goog|\.azure\.com|\.tencentyun\.com)?|instance-data(?:\..*)?"
)


class Target(NamedTuple):
    """A file or a host."""

    path: str
    """Absolute, with links followed; a host's name for a host."""
    place: str
    """See `Places.place`; for a host `remote`, `local`, `metadata` or `unknown`."""
    shown: str
    glob: bool = False


class Places:
    """Where paths are, for one call."""

    def __init__(self, cwd: str, project: str, home: str) -> None:
        self.home = os.path.realpath(home)
        self.project = os.path.realpath(project or cwd)
        self.wide = self.project in {"/", self.home} or self.home.startswith(f"{self.project}/")
        """Whether the project is no project: everything is below it."""
        if self.wide:
            self.project = os.path.realpath(cwd)
        self._cache: dict[tuple[str, str, bool], str] = {}

    def real(self, path: str, cwd: str, *, link: bool = False) -> str:
        """The absolute path. `link`: the last part itself, even if it is a link."""
        key = (path, cwd, link)
        found = self._cache.get(key)
        if found is None:
            whole = os.path.join(cwd, path)
            plain = os.path.normpath(whole)
            if _NULL.fullmatch(plain):
                found = plain  # what it leads to is this process's own
            else:
                try:
                    found = self._followed(path, whole, link=link)
                except (OSError, ValueError):  # a link that may not be read
                    found = plain
            if found.startswith("//"):
                found = found[1:]
            self._cache[key] = found
        return found

    @staticmethod
    def _followed(path: str, whole: str, *, link: bool) -> str:
        if unknown(whole):
            head = re.split(f"[^/]*[{UNKNOWN}{OPEN}{PLAIN}{DEFENDED}]", whole, maxsplit=1)[0]
            return os.path.normpath(os.path.join(os.path.realpath(head or "/"), whole[len(head) :].lstrip("/")))
        if link and not path.endswith(("/", "/.", "/..")) and path not in {".", ".."}:
            head, name = os.path.split(whole)
            return os.path.join(os.path.realpath(head), name)
        return os.path.realpath(whole)

    def target(self, text: str, cwd: str, *, glob: bool = False, link: bool = False) -> Target:
        """Returns the file of this name, seen from this directory."""
        text = text.removeprefix("file://")
        if _NULL.fullmatch(text):
            return Target(text, "null", text)
        if "\0" in text or (not text.startswith("/") and (UNKNOWN in cwd or OPEN in cwd)):
            return Target(text, "unknown", text, glob)
        if OPEN in text or (UNKNOWN in text and not self._is_named(text)):
            return Target(text, "unknown", text, glob)
        if DEFENDED in text:
            return Target(text, "defended", text, glob)
        path = self.real(text, cwd, link=link)
        return Target(path, self.place(path, glob=glob), text, glob)

    def _is_named(self, text: str) -> bool:
        """Whether the unknown part stands behind enough that is known: `/tmp/x-?`, and not `?/x` or `/?`."""
        head = text.partition(UNKNOWN)[0]
        return bool(head.rpartition("/")[2]) and UNKNOWN not in text.rpartition("/")[0]

    def place(self, path: str, *, glob: bool = False) -> str:
        """Where an absolute path is.

        null, device, root (the file system's, or above home or the project), home, project, git, generated, inside, temp-root,
        temp, profile, system, outside.
        """
        project, home = self.project, self.home
        if _NULL.fullmatch(path):
            return "null"
        if glob:
            head, _, name = path.rpartition("/")
            if not name.strip("*?.[]!^{}@"):  # everything in a directory
                place = self.place(head or "/")
                return {"temp": "temp", "inside": "inside", "generated": "generated"}.get(place, place)
        if path.startswith(f"{project}/"):
            rest = path[len(project) + 1 :]
            if rest == ".git" or rest.startswith(".git/"):
                return "git"
            first = rest.split("/")
            if any(GENERATED.fullmatch(part) for part in first):
                return "generated"
            return "inside"
        if path == project:
            return "project"
        if path == home:
            return "home"
        if path.startswith(f"{home}/"):
            return "profile" if _PROFILE.fullmatch(path[len(home) + 1 :]) else "outside"
        if path in _TEMPORARY:
            return "temp-root"
        if path == "/" or home.startswith(f"{path}/") or project.startswith(f"{path}/"):
            return "root"
        if path.startswith(tuple(f"{one}/" for one in _TEMPORARY)):
            return "temp"
        if path.startswith("/dev/"):
            return "device"
        if path.count("/") == 1 and not path.startswith("/."):
            return (
                "root"
                if os.path.isdir(path) or path[1:] in {"Users", "home", "mnt", "media", "data", "workspace"}
                else "outside"
            )
        if re.fullmatch(r"/(?:home|Users)/[^/]+", path):
            return "home"
        if re.fullmatch(
            r"/(?:home|Users|root)/(?:[^/]+/)?\.(?:ssh|bashrc|zshrc|profile|bash_profile|aws|gnupg|kube)(?:/.*)?", path
        ):
            return "profile"
        if re.fullmatch(
            r"/(?:etc|usr|bin|sbin|lib|lib64|boot|var|opt|root|sys|proc|Library|System|Applications)", path
        ):
            return "root"
        return "system" if _SYSTEM.match(path) else "outside"


def host_of(text: str) -> Target:
    """Returns the host of a URL or of `user@host:path`."""
    rest = re.sub(r"^[a-zA-Z][\w+.-]*:/*", "", text) if "://" in text or text.startswith("//") else text
    rest = re.split(r"[/?#\\]", rest, maxsplit=1)[0].rpartition("@")[2]
    name = (
        rest[1:].partition("]")[0] if rest.startswith("[") else rest.partition(":")[0] if rest.count(":") <= 1 else rest
    )
    return Target(name, _host_place(name), text)


def _host_place(name: str) -> str:
    if unknown(name) or not name:
        return "unknown"
    plain = unicodedata.normalize("NFKC", name).replace("。", ".").strip(".").lower()
    if _METADATA_NAMES.fullmatch(plain):
        return "metadata"
    address = _address(plain.partition("%")[0])
    if address is None:
        if _LOCAL.fullmatch(plain):
            return "local"
        return "by-dns" if _BY_DNS.fullmatch(plain) else "remote"
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        if mapped is None and address in ipaddress.ip_network("64:ff9b::/96"):
            mapped = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        address = mapped or address
    if str(address) in _METADATA:
        return "metadata"
    return "local" if address.is_loopback or address.is_unspecified else "remote"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, in any spelling that libc knows."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        pass
    if re.fullmatch(r"[0-9a-fx.]+", text) and text[0].isdigit():
        try:
            return ipaddress.IPv4Address(socket.inet_aton(text))
        except (OSError, ValueError):
            return None
    return None
