"""Conditions of rules that need more than a table: the state of a git repository, the ways out of a pipe."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .names import data, listed
from .rows import row_of
from .words import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .places import Places
    from .reading import Act, Command, Reading
    from .words import Word

CONTAINERS = listed("remote") | {"npx", "uvx"}
"""Programs whose options may be those of another."""
GIT_TIMEOUT = 1.0
"""Seconds for one question to git."""
_QUIET = listed("git-quiet")
_MAIN = re.compile(r"main|master|trunk|develop|production|prod|release(?:/.*)?|stable|staging|default")
_SENDS = frozenset(("send", "sends", "send-input", "sent", "dns-data", "code-sends", "socket", "netcat"))
_AWAY = frozenset(("remote", "unknown", "by-dns", "metadata"))
_SECRET_NAME = re.compile(
    r"(?i)(?:.*_|^)(?:TOKENS?|SECRETS?|PASSWD|PASSWORD|PASSPHRASE|API_?KEY|APIKEY|PRIVATE_?KEY|CREDENTIALS?|ACCESS_?KEY|SECRET_\w+)(?:_\w+)?$"
    r"|AWS_(?!REGION|DEFAULT|PROFILE)\w+|DATABASE_URL|PGPASSWORD|MYSQL_PWD|\w*(?:APIKEY|PASSWORD|PASSWD)"
)
_SECRET_PATTERN = re.compile(r"(?i)token|secret|key|pass|pwd|auth|cred|aws|[.*\\[|]")
_AUTHORIZATION = re.compile(r"(?i)(?:-H)?(?:authorization|[\w-]*(?:token|key))\s*:")
_CREDENTIALS = re.compile(
    r"(?i)(?:-H)?(?:[\w-]*auth[\w-]*|[\w-]*(?:token|key)[\w-]*|private-token|cookie)\s*:|.*bearer|[^/:]+:[^/]\S*$|-u"
)
_FOR_CREDENTIALS = frozenset(("-u", "--user", "-H", "--header", "--oauth2-bearer"))
_HOSTS: dict[str, str] = data("lists")["hosts-of-variables"]
"""The hosts to which a variable of a service may go."""
_PLAIN_WORDS = listed("plain-words")
_ELSEWHERE = re.compile(
    r"(?:git\+|https?://|git@|ssh://|file:|github:|gitlab:|bitbucket:|git://)|.*@\s*(?:git\+|https?:)|.*\.vsix$"
    r"|.*://.*\.(?:tgz|tar\.gz|whl|zip|deb|rpm)$"
)
_REPOSITORY = re.compile(r"(?![.@])[\w.-]+/[\w.-]+(?:#.*)?")
_VERBS = re.compile(
    r"(?:delete|destroy|purge|drop|terminate|remove|unregister|wipe|erase|prune|forget|del|nuke)(?:[-_:]\w+)*"
)
_NO_SERVICE = listed("no-service")
_SERVICES = listed("services")


@dataclass(slots=True)
class Case:
    """What a condition may look at."""

    reading: Reading
    places: Places
    agent: str = ""
    command: Command | None = None
    act: Act | None = None

    @property
    def words(self) -> list[Word]:
        """The words of the command after its name."""
        return self.command.words[1:] if self.command else []

    @property
    def operands(self) -> list[str]:
        """The texts of its operands."""
        return [word.text for word in self.command.operands] if self.command else []

    def given(self, *options: str) -> bool:
        """Whether the command has one of the options."""
        return self.command is not None and not self.command.options.keys().isdisjoint(options)

    def own(self) -> Iterator[Act]:
        """What the command does."""
        return (act for act in self.reading.acts if act.command is self.command)


def _git(case: Case, *arguments: str) -> str | None:
    """The output of git in the directory of the command; None if it fails, or says nothing in time."""
    command = case.command
    cwd = command.cwds[0] if command is not None and len(command.cwds) == 1 else ""
    if command is not None and (moved := command.options.get("-C")):
        cwd = os.path.join(cwd, moved)
    if not cwd or not os.path.isdir(cwd) or unknown(cwd):
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
    environment |= {"GIT_PAGER": "cat", "LC_ALL": "C"}
    settings = [part for setting in sorted(_QUIET) for part in ("-c", setting)]
    try:
        done = subprocess.run(  # noqa: S603 - the program is fixed, and asks nothing of the network
            ["git", *settings, "--no-pager", "-C", cwd, *arguments],  # noqa: S607 - the git of the user
            capture_output=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=GIT_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def unclean(case: Case) -> bool:
    """Whether uncommitted work may be lost: not if git says that there is none, and can say so without other programs."""
    settings = _git(case, "config", "--local", "--list", "--name-only")
    if settings is None or re.search(r"^(filter\.|include|diff\..*\.(?:command|textconv))", settings, re.MULTILINE):
        return True
    cleans = case.operands[:1] == ["clean"]
    arguments = ["--porcelain", f"--untracked-files={'normal' if cleans else 'no'}", "--ignore-submodules=all"]
    if cleans and case.given("-x", "-X"):
        arguments.append("--ignored")
    return _git(case, "status", *arguments) != ""


def to_main(case: Case) -> bool:
    """Whether a push replaces or deletes a branch that others build on."""
    if case.given("--mirror", "--all", "--prune"):
        return True
    targets = [ref.lstrip("+").rpartition(":")[2].removeprefix("refs/heads/") for ref in case.operands[2:]]
    if any(unknown(target) or "*" in target for target in targets):
        return False
    if targets in ([], ["HEAD"]):
        targets = [(_git(case, "symbolic-ref", "--short", "HEAD") or "").strip()]
    return any(_MAIN.fullmatch(target) for target in targets)


def _is_a_path(case: Case) -> bool:
    """Whether `git checkout X` restores files: there is such a file, or it is a path for sure."""
    operands = case.operands[1:]
    if case.given("-b", "-B", "--orphan", "--track", "-t"):
        return False
    if case.given("--"):
        return case.words[-1].text != "--"  # `git checkout NAME --` names a branch
    for text in operands:
        if text in {".", "./", "*", ":/"} or text.startswith(("./", "../", ":")) or "*" in text:
            return True
        if re.search(r"\.\w{1,5}$", text) and not re.fullmatch(r"v?\d+(?:\.\w+)+|[\w-]+/[\w.-]*\d", text):
            return True
    return len(operands) > 1 and operands[0] not in {"origin", "upstream"}


def loses_work(case: Case) -> bool:
    """Whether `git checkout` or `git restore` of paths may lose uncommitted work."""
    return _is_a_path(case) and unclean(case)


def leaves(case: Case) -> bool:
    """Whether something of this call leaves the machine. `env x` prints nothing itself."""
    here, acts = case.command, case.reading.acts
    if here is not None and here.name == "env" and here.wraps:
        return False
    kinds = {act.kind for act in acts} | {act.detail for act in acts}
    away = [act.command for act in acts if act.kind in {"connect", "send"} and act.target.place in _AWAY]
    if "dns-data" in kinds or (away and not _SENDS.isdisjoint(kinds)):
        return True
    return any(one and one is not here and any(here in word.inside for word in one.words) for one in away)


def _reaches_out(case: Case) -> bool:
    """Whether a command connects to another machine."""
    return any(act.kind in {"connect", "send"} and act.target.place in _AWAY for act in case.own())


def reads_files(case: Case) -> bool:
    """Whether the code that sends something also reads files."""
    reads = any(act.kind in {"read", "environment"} or act.target.place == "unknown" for act in case.own())
    return reads and _reaches_out(case)


def carries_data(case: Case) -> bool:
    """Whether a request to another machine has the output of a command that reads something in its words."""
    for word in case.words if _reaches_out(case) else ():
        names = {one.name for one in word.inside if not one.wraps}
        if not _AUTHORIZATION.match(word.text) and (
            names - _PLAIN_WORDS or ("://" in word.text and names & {"cat", "base64", "head", "tail", "git"})
        ):
            return True
    return False


def sent_secret(case: Case) -> bool:
    """Whether a variable with a secret is part of what is sent to another host, and not of its authorization."""
    if case.act is None or case.act.target.place == "local":
        return False
    before = ""
    for word in case.words:
        names = [name for name in word.variables if _SECRET_NAME.search(name)]
        for name, own in _HOSTS.items():
            if not re.search(own, case.act.target.path) and any(one.startswith(name) for one in names):
                return True
        if names and not _CREDENTIALS.match(word.text) and before not in _FOR_CREDENTIALS:
            return True
        before = word.text
    return False


def shown_secret(case: Case) -> bool:
    """Whether a command prints a variable with a secret."""
    return any(_SECRET_NAME.search(name) for word in case.words for name in word.variables)


def named_secret(case: Case) -> bool:
    """Whether a command prints variables, and one with a secret may be among them."""
    command = case.command
    if command is None or command.wraps or (command.name == "set" and case.words):
        return False
    names = [text for text in case.operands if "=" not in text]
    if names:
        return any(_SECRET_NAME.search(name) for name in names)
    for after in case.reading.commands:
        reads = after.feed is not None and command in after.feed.commands
        if reads and after.name in {"grep", "egrep", "rg"} and after.operands:
            wanted = after.operands[0].text
            return len(wanted) < 3 or "-v" in after.options or _SECRET_PATTERN.search(wanted) is not None
    return True


def outside(case: Case) -> bool:
    """Whether an installed package comes from elsewhere than the usual index."""
    command = case.command
    if command is None:
        return False
    runs_one = command.name in {"npx", "bunx", "uvx"}  # the other words are the program's
    texts = [*case.operands[: 1 if runs_one else None], *command.options.values()]
    if command.name in {"npm", "pnpm", "yarn", "bun", "npx"} and any(map(_REPOSITORY.fullmatch, texts)):
        return True
    return any(map(_ELSEWHERE.match, texts))


def not_local_delete(case: Case) -> bool:
    """Whether a request that deletes goes to another machine, or to a local store of documents. Other commands always count."""
    if case.command is None or case.command.name != "curl":
        return True
    return any(":9200" in text or ":5984" in text for text in case.operands) or _reaches_out(case)


def deletes_by_name(case: Case) -> bool:
    """Whether a program that guards know nothing of gets a verb such as `delete` among its first words."""
    command = case.command
    if command is None or command.wraps or command.name in _NO_SERVICE:
        return False
    path = re.sub(r"^/+proc/self/root(?=/)", "", command.words[0].text)
    if "/" in path and not re.match(r"/(?:usr/)?(?:local/)?s?bin/", os.path.normpath(path)):
        return False  # a program of the project
    if row_of(command.name).name and command.name not in _SERVICES:
        return False
    return any(map(_VERBS.fullmatch, case.operands[:3]))


def not_loaded(case: Case) -> bool:
    """Whether what is read is shown: not if it only becomes variables, by `export $(...)`."""
    exports = [one for one in case.reading.commands if one.name == "export"]
    return case.command is None or not any(case.command in word.inside for one in exports for word in one.words)


BY_NAME: dict[str, Callable[[Case], bool]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(unclean, to_main, loses_work, leaves, reads_files, carries_data, sent_secret, shown_secret),
        *(named_secret, outside, not_local_delete, deletes_by_name, not_loaded),
    )
}
"""The conditions, by their names in packs."""
