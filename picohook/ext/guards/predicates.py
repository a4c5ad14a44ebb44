"""Conditions of rules that need more than a table: the state of a git repository, the ways out of a pipe."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .names import data, listed
from .reading import Act, Command, Reading
from .rows import row_of
from .words import unknown

GIT_TIMEOUT = 1.0
"""Seconds for one question to git."""
_CONTAINERS = listed("containers")
"""Programs whose options may be those of another."""
_QUIET = [part for setting in data("lists")["git-quiet"] for part in ("-c", setting)]
_IS = {name: re.compile(pattern) for name, pattern in data("lists")["patterns"].items()}
_HOSTS: dict[str, str] = data("lists")["hosts-of-variables"]
"""The hosts to which a variable of a service may go."""
_FOR_CREDENTIALS, _PLAIN_WORDS = listed("options-for-credentials"), listed("plain-words")
_KNOWN_SERVICES, _NO_SERVICES = listed("services"), listed("no-service")
_CODE = ("-c", "-e", "-E", "-r", "--eval", "-p", "--print")
"""The options with which interpreters get code."""
_SENDS = frozenset(("send", "sends", "send-input", "sent", "code-sends", "socket", "netcat"))
_REQUESTS = frozenset(("connect", "send", "look-up"))
_AWAY = frozenset(("remote", "unknown", "by-dns", "metadata"))


class Case(NamedTuple):
    """A command or an act that a rule may be about, and the call that it is a part of."""

    reading: Reading
    command: Command
    act: Act | None
    home: str

    @property
    def operands(self) -> list[str]:
        """The texts of its operands."""
        return [word.text for word in self.command.operands]

    def given(self, *options: str) -> bool:
        """Whether the command has one of the options."""
        return not self.command.options.keys().isdisjoint(options)


def cases(reading: Reading, home: str) -> Iterator[Case]:
    """Yields the commands and the acts of a reading. A command that only prints its help or version is none."""
    for one in reading.commands:
        only_tells = "--help" in one.options or [word.text for word in one.words[1:]] == ["--version"]
        if not only_tells or one.wraps or one.name in _CONTAINERS:
            yield Case(reading, one, None, home)
    for act in reading.acts:
        yield Case(reading, act.command, act, home)


def _git(case: Case, *arguments: str) -> str | None:
    """The output of git in the directory of the command; None if it fails, or says nothing in time."""
    cwd = os.path.join(*case.command.cwds[:1], case.command.options.get("-C", ""))
    if len(case.command.cwds) != 1 or not os.path.isdir(cwd) or unknown(cwd):
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
    try:
        done = subprocess.run(  # noqa: S603 - the program is fixed, and asks nothing of the network
            ["git", *_QUIET, "--no-pager", "-C", cwd, *arguments],  # noqa: S607 - the git of the user
            capture_output=True,
            env={**environment, "GIT_PAGER": "cat", "LC_ALL": "C"},
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
    return any(map(_IS["main-branch"].fullmatch, targets))


def loses_work(case: Case) -> bool:
    """Whether `git checkout X` restores files, which it does if X is a path for sure, and may lose uncommitted work."""
    operands = case.operands[1:]
    if case.given("-b", "-B", "--orphan", "--track", "-t"):
        return False
    if case.given("--"):
        restores = case.command.words[-1].text != "--"  # `git checkout NAME --` names a branch
    else:
        several = len(operands) > 1 and operands[0] not in {"origin", "upstream"}
        restores = several or any(map(_IS["path"].fullmatch, operands))
    return (restores or case.given("--pathspec-from-file")) and unclean(case)


def leaves(case: Case) -> bool:
    """Whether something of this call leaves the machine. `env x` prints nothing itself."""
    here, acts = case.command, case.reading.acts
    if here.name == "env" and here.wraps:
        return False
    away = [act.command for act in acts if act.kind in _REQUESTS and act.target.place in _AWAY]
    sends = any(act.kind in _SENDS or act.detail in _SENDS for act in acts)
    return bool(away and sends) or any(here in word.inside for one in away for word in one.words)


def reads_files(case: Case) -> bool:
    """Whether the code that sends something to another machine also reads files, beside the one that it stands in."""
    stands_in = "" if case.given(*_CODE) else os.path.basename(next(iter(case.operands), ""))
    own = [act for act in case.reading.acts if act.command is case.command]
    others = [act for act in own if act.kind != "read" or os.path.basename(act.target.path) != stands_in]
    reads = any(act.kind in {"read", "environment"} or act.target.place == "unknown" for act in others)
    return reads and any(act.kind in _REQUESTS and act.target.place in _AWAY for act in own)


def carries_data(case: Case) -> bool:
    """Whether a request has the output of a command that reads something in its words."""
    for word in case.command.words[1:]:
        names = {one.name for one in word.inside if not one.wraps}
        in_address = "://" in word.text and names & {"cat", "base64", "head", "tail", "git"}
        if (names - _PLAIN_WORDS or in_address) and not _IS["authorization"].match(word.text):
            return True
    return False


def sent_secret(case: Case) -> bool:
    """Whether a variable with a secret is part of what is sent to a host, and not of its authorization."""
    before = ""
    path = case.act.target.path if case.act else ""
    others = tuple(name for name, own in _HOSTS.items() if not re.search(own, path))
    for word in case.command.words:
        names = [name for name in word.variables if _IS["secret-name"].search(name)]
        is_credentials = before in _FOR_CREDENTIALS or _IS["credentials"].match(word.text)
        if any(name.startswith(others) for name in names) or (names and not is_credentials):
            return True
        before = word.text
    return False


def shown_secret(case: Case) -> bool:
    """Whether a command prints a variable with a secret."""
    return any(_IS["secret-name"].search(name) for word in case.command.words for name in word.variables)


def named_secret(case: Case) -> bool:
    """Whether a command prints variables, and one with a secret may be among them."""
    command = case.command
    if command.wraps or (command.name == "set" and command.words[1:]):
        return False
    names = [text for text in case.operands if "=" not in text]
    if names:
        return any(map(_IS["secret-name"].search, names))
    for after in case.reading.commands:
        reads = after.feed is not None and command in after.feed.commands
        if reads and after.name in {"grep", "egrep", "rg"} and after.operands:
            wanted = after.operands[0].text
            return len(wanted) < 3 or "-v" in after.options or _IS["secret-pattern"].search(wanted) is not None
    return True


def outside(case: Case) -> bool:
    """Whether an installed package comes from elsewhere than the usual index."""
    name = case.command.name
    runs_one = name in {"npx", "bunx", "uvx"}  # the other words are the program's
    texts = [*case.operands[: 1 if runs_one else None], *case.command.options.values()]
    of_github = name in {"npm", "pnpm", "yarn", "bun", "npx"} and any(map(_IS["repository"].fullmatch, texts))
    return of_github or any(map(_IS["elsewhere"].match, texts))


def deletes_by_name(case: Case) -> bool:
    """Whether a program that guards know nothing of gets a verb such as `delete` among its first words."""
    command = case.command
    path = re.sub(r"^/+proc/self/root(?=/)", "", command.words[0].text)
    if command.wraps or ("/" in path and not _IS["directory-of-programs"].match(os.path.normpath(path))):
        return False  # a program of the project
    is_known = command.name in _NO_SERVICES or (row_of(command.name).name and command.name not in _KNOWN_SERVICES)
    return not is_known and any(map(_IS["deleting-verb"].fullmatch, case.operands[:3]))


def not_loaded(case: Case) -> bool:
    """Whether what is read is shown: not if it only becomes variables, by `export $(...)`."""
    exports = [one for one in case.reading.commands if one.name == "export"]
    return not any(case.command in word.inside for one in exports for word in one.words)


BY_NAME: dict[str, Callable[[Case], bool]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(unclean, to_main, loses_work, leaves, reads_files, carries_data, sent_secret, shown_secret),
        *(named_secret, outside, deletes_by_name, not_loaded),
    )
}
"""The conditions, by their names in packs."""
