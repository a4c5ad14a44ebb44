"""Conditions of rules that need more than a table: the state of a git repository, the ways out of a pipe."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .names import listed
from .rows import row_of
from .words import unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from .places import Places
    from .reading import Act, Command, Reading

CONTAINERS = frozenset(("docker", "podman", "nerdctl", "kubectl", "ssh", "npx", "uvx"))
"""Programs whose options may be those of another."""
GIT_TIMEOUT = 1.0
"""Seconds for one question to git."""
_QUIET = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat", "-c", "diff.external="),
    *(
        "-c",
        "core.sshCommand=false",
        "-c",
        "core.untrackedCache=false",
        "-c",
        "protocol.allow=never",
        "-c",
        "submodule.recurse=false",
    ),
)
_MAIN = re.compile(r"main|master|trunk|develop|production|prod|release(?:/.*)?|stable|staging|default")
_SENDS = frozenset(("send", "sends", "send-input", "sent", "dns-data", "code-sends", "socket"))
_AWAY = frozenset(("remote", "unknown", "by-dns", "metadata"))
_SECRET_NAME = re.compile(
    r"(?i)(?:.*_|^)(?:TOKENS?|SECRETS?|PASSWD|PASSWORD|PASSPHRASE|API_?KEY|APIKEY|PRIVATE_?KEY|CREDENTIALS?|ACCESS_?KEY|SECRET_\w+)(?:_\w+)?$"
    r"|AWS_(?!REGION|DEFAULT|PROFILE)\w+|DATABASE_URL|PGPASSWORD|MYSQL_PWD|\w*(?:APIKEY|PASSWORD|PASSWD)"
)


_SECRET_PATTERN = re.compile(r"(?i)token|secret|key|pass|pwd|auth|cred|aws|[.*\\[|]")


@dataclass(slots=True)
class Case:
    """What a condition may look at."""

    reading: Reading
    places: Places
    agent: str = ""
    command: Command | None = None
    act: Act | None = None


def _git(case: Case, *arguments: str) -> str | None:
    """The output of git in the directory of the command; None if it fails, or says nothing in time."""
    command = case.command
    cwd = command.cwds[0] if command is not None and len(command.cwds) == 1 else ""
    if command is not None and (moved := command.options.get("-C")):
        cwd = os.path.join(cwd, moved)
    if not cwd or not os.path.isdir(cwd) or unknown(cwd):
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_PAGER": "cat",
        "LC_ALL": "C",
    }
    try:
        done = subprocess.run(  # noqa: S603 - the program is fixed, and asks nothing of the network
            ["git", *_QUIET, "--no-pager", "-C", cwd, *arguments],  # noqa: S607 - the git of the user
            capture_output=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=GIT_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _filters(case: Case) -> bool:
    """Whether the repository's configuration has programs that `git status` may start."""
    found = _git(
        case,
        "config",
        "--get-regexp",
        r"^(filter\..*|diff\..*\.(command|textconv)|core\.(fsmonitor|alternaterefscommand))",
    )
    return found is None or bool(found.strip())


def unclean(case: Case) -> bool:
    """Whether uncommitted work may be lost: not if git says that there is none."""
    if _git(case, "rev-parse", "--is-inside-work-tree") is None:
        return True
    listed = _git(case, "config", "--local", "--list", "--name-only")
    if listed is None or re.search(r"^(filter\.|include|diff\..*\.(?:command|textconv))", listed, re.MULTILINE):
        return True
    command = case.command
    cleaning = command is not None and bool(command.operands) and command.operands[0].text == "clean"
    arguments = [
        "status",
        "--porcelain",
        "--untracked-files=" + ("normal" if cleaning else "no"),
        "--ignore-submodules=all",
    ]
    if cleaning and command is not None and any("x" in option or "X" in option for option in command.options):
        arguments.append("--ignored")
    shown = _git(case, *arguments)
    return shown is None or bool(shown.strip())


def to_main(case: Case) -> bool:
    """Whether a push replaces or deletes a branch that others build on."""
    command = case.command
    if command is None:
        return False
    refs = [word.text for word in command.operands[2:]]
    if command.options.keys() & {"--mirror", "--all", "--prune"}:
        return True
    targets = [ref.lstrip("+").rpartition(":")[2].removeprefix("refs/heads/") for ref in refs]
    if any(unknown(target) or "*" in target for target in targets):
        return False
    if not targets or targets == ["HEAD"]:
        branch = _git(case, "symbolic-ref", "--short", "HEAD")
        targets = [branch.strip()] if branch else []
    return any(_MAIN.fullmatch(target) for target in targets)


def is_a_path(case: Case) -> bool:
    """Whether `git checkout X` restores files: there is such a file, or it is a path for sure."""
    command = case.command
    if command is None:
        return False
    operands = [word.text for word in command.operands[1:]]
    if command.options.keys() & {"-b", "-B", "--orphan", "--track", "-t"}:
        return False
    if "--" in command.options and command.words[-1].text == "--":
        return False  # `git checkout NAME --` names a branch
    if "--" in command.options:
        return True
    for text in operands:
        if text in {".", "./", "*", ":/"} or text.startswith(("./", "../", ":")) or "*" in text:
            return True
        if re.search(r"\.\w{1,5}$", text) and not re.fullmatch(r"v?\d+(?:\.\w+)+|[\w-]+/[\w.-]*\d", text):
            return True
    return len(operands) > 1 and not any(re.match(r"origin$|upstream$", text) for text in operands[:1])


def loses_work(case: Case) -> bool:
    """Whether `git checkout` or `git restore` of paths may lose uncommitted work."""
    return is_a_path(case) and unclean(case)


def leaves(case: Case) -> bool:
    """Whether something of this call leaves the machine. `env x` prints nothing itself."""
    acts = case.reading.acts
    if case.command is not None and case.command.name == "env" and case.command.wraps:
        return False
    if any(act.kind == "dns-data" for act in acts):
        return True
    away = [act for act in acts if act.kind in {"connect", "send"} and act.target.place in _AWAY]
    if away and any(act.kind in _SENDS or act.detail in {"netcat", "socket"} for act in acts):
        return True
    here = case.command
    return any(
        act.command is not None and act.command is not here and any(here in word.inside for word in act.command.words)
        for act in away
    )


_PLAIN_WORDS = listed("plain-words")


def carries_data(case: Case) -> bool:
    """Whether a request to another machine has the output of a command that reads something in its words."""
    command = case.command
    if command is None or not any(
        a.command is command and a.target.place in {"remote", "unknown", "by-dns"} for a in case.reading.acts
    ):
        return False
    for word in command.words[1:]:
        names = [one.name for one in word.inside if not one.wraps]
        if not names or re.match(r"(?i)(?:-H)?(?:authorization|[\w-]*(?:token|key))\s*:", word.text):
            continue
        address = "://" in word.text
        if any(name not in _PLAIN_WORDS for name in names) or (
            address and any(name in {"cat", "base64", "head", "tail", "git"} for name in names)
        ):
            return True
    return False


def reads_files(case: Case) -> bool:
    """Whether the code that sends something also reads files."""
    command = case.command
    return any(
        act.command is command and (act.kind in {"read", "environment"} or act.target.place == "unknown")
        for act in case.reading.acts
    ) and any(
        act.command is command and act.kind in {"send", "connect"} and act.target.place != "local"
        for act in case.reading.acts
    )


_HOSTS = {
    "GITHUB_": r"github", "GH_": r"github", "NPM_": r"npm", "OPENAI_": r"openai", "ANTHROPIC_": r"anthropic",
    "SLACK_": r"slack", "GITLAB_": r"gitlab", "STRIPE_": r"stripe", "AWS_": r"amazonaws|aws",
}  # fmt: skip
"""The hosts to which a variable of a service may go."""


def sent_secret(case: Case) -> bool:
    """Whether a variable with a secret is part of what is sent to another host, and not of its authorization."""
    command, act = case.command, case.act
    if command is None or act is None or act.target.place == "local":
        return False
    host = act.target.path
    for word in command.words[1:]:
        names = [name for name in word.variables if _SECRET_NAME.search(name)]
        if any(name.startswith(own) and re.search(at, host) is None for name in names for own, at in _HOSTS.items()):
            return True
        if names and not re.match(
            r"(?i)(?:-H)?(?:[\w-]*auth[\w-]*|[\w-]*(?:token|key)[\w-]*|private-token|cookie)\s*:|.*bearer|[^/:]+:[^/]\S*$|-u",
            word.text,
        ):
            position = command.words.index(word)
            before = command.words[position - 1].text if position else ""
            if before not in {"-u", "--user", "-H", "--header", "--oauth2-bearer"}:
                return True
    return False


def shown_secret(case: Case) -> bool:
    """Whether a command prints a variable with a secret."""
    command = case.command
    return command is not None and any(
        _SECRET_NAME.search(name) for word in command.words[1:] for name in word.variables
    )


def named_secret(case: Case) -> bool:
    """Whether a command prints variables, and one with a secret may be among them."""
    command = case.command
    if command is None or command.wraps or (command.name == "set" and len(command.words) > 1):
        return False
    names = [word.text for word in command.operands if "=" not in word.text]
    if names:
        return any(_SECRET_NAME.search(name) for name in names)
    for after in case.reading.commands:
        if (
            after.name in {"grep", "egrep", "rg"}
            and after.feed is not None
            and command in after.feed.commands
            and after.operands
        ):
            wanted = after.operands[0].text
            return len(wanted) < 3 or "-v" in after.options or bool(_SECRET_PATTERN.search(wanted))
    return True


def deletes_widely(case: Case) -> bool:
    """Whether processes are ended that the agent did not start."""
    command = case.command
    if command is None:
        return False
    pattern = command.operands[0].text if command.operands else ""
    return (
        "-f" not in command.options
        or len(pattern) < 4
        or pattern in {"node", "python", "python3", "java", "ruby", "bash", "sh", "ssh"}
    )


def kills_all(case: Case) -> bool:
    """Whether `kill` reaches every process, or the first."""
    command = case.command
    if command is None or "-0" in command.options or "-l" in command.options:
        return False
    texts = [word.text for word in command.words[1:]]
    return any(text in {"-1", "1"} for text in texts[1:]) or (texts[:1] in (["-1"], ["1"]) and len(texts) == 1)


def opens_to_all(case: Case) -> bool:
    """Whether a mode lets everybody write, or lets a file run as its owner."""
    act = case.act
    if act is None:
        return False
    value = act.detail
    if re.fullmatch(r"0?[0-7]{3,4}", value):
        digits = value[-4:].rjust(4, "0")
        return digits[-1] in "2367" or digits[0] in "4567"
    return bool(re.search(r"(?:^|,)[a-z]*[oa][a-z]*[+=][rx]*w|(?:^|,)\+[rx]*w|[ug]*[+=][rwx]*s", value))


def whole_table(case: Case) -> bool:
    """Whether a statement deletes or changes all rows of a table."""
    act = case.act
    return act is not None and bool(
        re.search(r"(?i)\bdelete\s+from\s+[\w.\"`]+\s*(?:;|$)|\bupdate\s+[\w.\"`]+\s+set\s+(?!.*\bwhere\b)", act.detail)
    )


def is_unread(case: Case) -> bool:
    """Whether a shell has no input that guards read."""
    command = case.command
    return command is not None and command.feed is None


def outside(case: Case) -> bool:
    """Whether an installed package comes from elsewhere than the usual index."""
    command = case.command
    if command is None:
        return False
    runs_one = command.name in {"npx", "bunx", "uvx"}  # the other words are the program's
    texts = [word.text for word in command.operands[: 1 if runs_one else None]]
    texts += [value for value in command.options.values() if value]
    for text in texts:
        if re.match(r"(?:git\+|https?://|git@|ssh://|file:|github:|gitlab:|bitbucket:|git://)", text):
            return True
        if re.search(r"@\s*(?:git\+|https?:)", text):
            return True
        if (
            command.name in {"npm", "pnpm", "yarn", "bun", "npx"}
            and re.fullmatch(r"[\w.-]+/[\w.-]+(?:#.*)?", text)
            and not text.startswith((".", "@"))
        ):
            return True
        if text.endswith(".vsix") or ("://" in text and re.search(r"\.(?:tgz|tar\.gz|whl|zip|deb|rpm)$", text)):
            return True
    return False


_READ_ONLY = frozenset(["status", "history", "view", "list", "get", "describe", "diff", "template", "logs"])
_SAFE_INSIDE = listed("safe-inside")


def cluster_change(case: Case) -> bool:
    """Whether a command of a cluster changes something. `exec` does if it runs more than a look."""
    command = case.command
    if command is None:
        return False
    words = [word.text for word in command.operands]
    if "exec" in words[:1]:
        return False  # what it runs is judged by itself
    return len(words) < 2 or words[1] not in _READ_ONLY


def not_local_delete(case: Case) -> bool:
    """Whether a request that deletes goes to another machine, or to a local store of documents. Other commands always count."""
    command = case.command
    if command is None or command.name != "curl":
        return True
    return any(":9200" in word.text or ":5984" in word.text for word in command.operands) or any(
        act.command is command and act.target.place not in {"local", ""}
        for act in case.reading.acts
        if act.kind in {"connect", "send"}
    )


def reaches_out(case: Case) -> bool:
    """Whether a command connects to another machine."""
    return any(
        act.command is case.command and act.target.place in _AWAY
        for act in case.reading.acts
        if act.kind in {"connect", "send"}
    )


def mounts_home(case: Case) -> bool:
    """Whether a container gets the home directory, a directory above it, or hidden files in it."""
    home = case.places.home
    texts = [word.text for word in case.command.words] if case.command is not None else []
    sources = [
        re.sub(r"^(?:-v=?|--volume=|(?:--mount=)?(?:\S*,)?(?:source|src)=)", "", text).partition(":")[0].split(",")[0]
        for text in texts
    ]
    return any(
        home == os.path.normpath(one) or home.startswith(f"{one.rstrip('/')}/") or one.startswith(f"{home}/.")
        for one in sources
        if one.startswith("/")
    )


def ends_guard(case: Case) -> bool:
    """Whether `kill` gets the process of picohook or of an agent."""
    command = case.command
    return command is not None and any(
        re.search(r"picohook|claude|codex|gemini|copilot", one.line)
        for word in command.words
        for one in word.inside
        if one.name in {"pgrep", "pidof", "ps", "grep", "cat"}
    )


_VERBS = re.compile(
    r"(?:delete|destroy|purge|drop|terminate|remove|unregister|wipe|erase|prune|forget|del|nuke)(?:[-_:]\w+)*"
)
_NO_SERVICE = listed("no-service")
_SERVICES = frozenset(
    ("op", "crictl", "heroku", "vercel", "netlify", "supabase", "flyctl", "security", "glab", "docker-compose")
)


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
    return any(_VERBS.fullmatch(word.text) for word in command.operands[:3])


def not_loaded(case: Case) -> bool:
    """Whether what is read is shown: not if it only becomes variables, by `export $(...)`."""
    exports = [one for one in case.reading.commands if one.name == "export"]
    return case.command is None or not any(case.command in word.inside for one in exports for word in one.words)


BY_NAME: dict[str, Callable[[Case], bool]] = {
    "unclean": unclean,
    "to-main": to_main,
    "loses-work": loses_work,
    "leaves": leaves,
    "cluster-change": cluster_change,
    "not-local-delete": not_local_delete,
    "reaches-out": reaches_out,
    "ends-guard": ends_guard,
    "deletes-by-name": deletes_by_name,
    "not-loaded": not_loaded,
    "mounts-home": mounts_home,
    "carries-data": carries_data,
    "reads-files": reads_files,
    "sent-secret": sent_secret,
    "shown-secret": shown_secret,
    "named-secret": named_secret,
    "deletes-widely": deletes_widely,
    "kills-all": kills_all,
    "opens-to-all": opens_to_all,
    "whole-table": whole_table,
    "unread": is_unread,
    "outside": outside,
}
"""The conditions, by their names in packs."""
