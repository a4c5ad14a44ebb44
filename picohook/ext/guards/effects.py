"""What a command does with files and hosts, as acts. The table of programs says which function knows."""

from __future__ import annotations

import itertools
import os.path
import re
from typing import TYPE_CHECKING

from .listing import found, listed
from .places import Target, host_of
from .reading import Act
from .syntax import TooMuchError
from .words import OPEN, UNKNOWN, Word, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .call_files import CallFiles
    from .reading import Command, Reading
    from .rows import Row

MOST_ACTS = 2_000
NOWHERE = Target("", "", "")
_CLASSES = frozenset(">|&")
_NET_PATH = re.compile(r"/dev/(?:tcp|udp)/([^/]+)/(.*)", re.DOTALL)
_URL = re.compile(r"(?:https?|ftps?|wss?|sftp|scp|gopher|tftp|ldaps?|dict|smb)://[^\s'\"]+", re.IGNORECASE)
_REMOTE_FILE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:[^\\]*|rsync://.*|\w+:.+")
_WRITES_OUT = frozenset(("write", "append"))
_REMOTE = frozenset(("ssh", "docker", "podman", "nerdctl", "kubectl", "oc", "k"))


class Effects:
    """Notes the acts of one command."""

    def __init__(self, files: CallFiles, reading: Reading, command: Command, row: Row) -> None:
        self.files, self.reading, self.command, self.row = files, reading, command, row
        self.elsewhere = not _REMOTE.isdisjoint(command.via)

    def act(self, kind: str, word: Word | str, detail: str = "", *, link: bool = False) -> None:
        """Note an act on a file, wherever the command may run."""
        word = Word(word) if isinstance(word, str) else word
        if not word.text and kind != "read":
            return
        if len(self.reading.acts) > MOST_ACTS:
            raise TooMuchError("it does too many things")
        plain = word.inside and word.text[:1] in {UNKNOWN, OPEN} and "/" not in word.text
        names = listed(word.inside) if plain else None
        for one in names or (word,):
            for cwd in self.command.cwds:
                target = self.files.places.target(one.text, cwd, glob=one.glob, link=link)
                if self.elsewhere:
                    place = target.place if target.place in {"root", "home", "system", "null"} else "elsewhere"
                    target = target._replace(place=f"remote-{place}" if place != "null" else place)
                self.reading.acts.append(Act(kind, target, self.command, detail))

    def host(self, kind: str, text: str, detail: str = "") -> None:
        """Note an act on a host."""
        self.reading.acts.append(Act(kind, host_of(text), self.command, detail))

    def bare(self, kind: str, detail: str = "") -> None:
        """Note an act of a pipe or a program."""
        self.reading.acts.append(Act(kind, NOWHERE, self.command, detail))

    def reads(self, words: Iterable[Word]) -> None:
        """These words name files that are read, if they name any."""
        for word in words:
            if word.text and not word.text.startswith("-"):
                self.act("read", word)

    # By the name in the table.

    def none(self) -> None:
        """Its operands are no files, or only their names matter."""

    def read(self) -> None:
        """Its operands are files."""
        self.reads(self.command.operands)

    def read_maybe(self) -> None:
        """Of a program that is not known, each word may be a file, and a URL a host."""
        for word in self.command.words[1:] if not self.row.name else self.command.operands:
            text = word.text
            if _URL.match(text):
                self.host("connect", text)
            elif text.startswith("-") and "=" in text:
                self.act("read", Word(text.partition("=")[2], word.glob, word.inside))
            elif text and not text.startswith("-") and " " not in text:
                self.act("read", word)

    def read_after_first(self) -> None:
        """The first operand is a pattern."""
        if self.command.name in {"rg", "ag", "ack"} or any(
            one[:2] != "--" and "r" in one.lower() for one in self.command.options if one[:1] == "-"
        ):
            for word in self.command.operands[1:]:
                self.act("read-tree", word)
        has_pattern = self.command.options.keys() & {"-e", "--regexp", "-f", "--file", "--files"}
        self.reads(self.command.operands[0 if has_pattern else 1 :])

    def write(self) -> None:
        """Its operands are overwritten."""
        for word in self.command.operands:
            self.act("write", word)

    def create(self) -> None:
        """Its operands are made if they do not exist."""
        for word in self.command.operands:
            self.act("create", word)

    def remove(self) -> None:
        """`rm` and its like."""
        options = self.command.options
        if self.command.name == "shred" and not options.keys() & {"-u", "--remove"}:
            self.write()
            return
        last = next((one for one in reversed(options) if one in {"-i", "-f", "--force", "--interactive"}), "")
        asks = last in {"-i", "--interactive"} and not (self.command.feed and self.command.feed.commands)
        tree = any(one in {"-r", "-R"} or (len(one) > 2 and "--recursive".startswith(one)) for one in options)
        kind = "delete-tree" if tree else "delete"
        for word in () if asks else self.command.operands:
            self.act("delete" if tree and _is_file(word, self.command.cwds[0]) else kind, word, link=True)

    def remove_tree(self) -> None:
        """`rimraf`."""
        for word in self.command.operands:
            self.act("delete-tree", word, link=True)

    def remove_empty(self) -> None:
        """`rmdir`: nothing is lost."""

    def _targets(self) -> list[Word]:
        """The last operand, and the one before what `xargs` may add."""
        operands = self.command.operands
        added = len(operands) > 1 and self.command.via[-1:] == ("xargs",) and unknown(operands[-1].text)
        return operands[-2:] if added else operands[-1:]

    def copy(self) -> None:
        """`cp`, `install`: the last operand is overwritten."""
        operands, options = self.command.operands, self.command.options
        target = options.get("-t") or options.get("--target-directory")
        sources = operands if target else operands[:-1]
        self.reads(sources)
        for word in [Word(target)] if target else self._targets():
            self.act("append" if options.keys() & {"-n", "--no-clobber"} else "write", word, "copy")

    def link(self) -> None:
        """`ln`: only with -f it replaces."""
        operands, options = self.command.operands, self.command.options
        target = options.get("-t") or options.get("--target-directory")
        forced = options.keys() & {"-f", "--force"}
        self.reads(operands[:1] if not target else operands)
        for word in [Word(target)] if target else self._targets() if len(operands) > 1 else ():
            self.act("write" if forced else "create", word, "link", link=True)

    def move(self) -> None:
        """`mv`: the sources are gone, the target is overwritten."""
        operands, options = self.command.operands, self.command.options
        target = options.get("-t") or options.get("--target-directory")
        for word in operands if target else operands[:-1]:
            self.act("move", word, link=True)
        for word in [Word(target)] if target else self._targets() if len(operands) > 1 else ():
            self.act("append" if options.keys() & {"-n", "--no-clobber"} else "write", word, "move")

    def tee(self) -> None:
        """`tee`."""
        kind = "append" if self.command.options.keys() & {"-a", "--append"} else "write"
        for word in self.command.operands:
            self.act(kind, word)

    def dd(self) -> None:
        """`dd`."""
        for word in self.command.words[1:]:
            name, _, value = word.text.partition("=")
            if name in {"if", "of"}:
                self.act("read" if name == "if" else "write", Word(value, word.glob, word.inside))

    def output_option(self) -> None:
        """An option names the file that is written."""
        self.reads(self.command.operands)
        for option in self.row.output:
            if value := self.command.options.get(option):
                self.act("write", value)

    def in_place(self) -> None:
        """`sed -i`, `perl -i`."""
        options, operands = self.command.options, self.command.operands
        in_place = any(one == "-i" or one.startswith("--in-place") for one in options)
        in_place = in_place or any(
            re.match(r"-[nErsuzlpa]*i", word.text) for word in self.command.words[1:] if word.text[:2] != "--"
        )
        has_code = options.keys() & {"-e", "-f", "--expression", "--file", "-E"}
        files = operands[0 if has_code else 1 :]
        self.reads(files)
        for word in files if in_place else ():
            self.act("write", word, "edit")

    def mode(self) -> None:
        """`chmod` and its like."""
        operands = self.command.operands
        words = self.command.words[1:]
        value = next(
            (word.text for word in words if re.fullmatch(r"-?[0-7]{3,4}|[-ugoa]*[-+=][rwxXst]*(?:,.*)?", word.text)), ""
        )
        tree = bool(self.command.options.keys() & {"-R", "--recursive"})
        for word in operands:
            if word.text != value:
                self.act("mode-tree" if tree else "mode", word, value)

    def owner(self) -> None:
        """`chown`."""
        tree = bool(self.command.options.keys() & {"-R", "--recursive"})
        for word in self.command.operands[1:]:
            self.act("owner-tree" if tree else "owner", word, self.command.operands[0].text)

    def find(self) -> None:
        """`find`: what it deletes or writes."""
        texts = [word.text for word in self.command.words]
        if "-delete" in texts:
            for word in found(self.command):
                self.act("delete" if word.glob or unknown(word.text) else "delete-tree", word)
        for option, value in itertools.pairwise(texts):
            if option in {"-fprint", "-fprint0", "-fprintf", "-fls"}:
                self.act("write", value)

    def git(self) -> None:
        """`git`: the files that it deletes or sends."""
        operands = self.command.operands
        sub = operands[0].text if operands else ""
        if sub == "clone":
            for word in operands[1:2]:
                self.host("connect", word.text)
        elif sub in {"show", "log", "diff", "blame", "cat-file"}:
            self.reads(Word(word.text.rpartition(":")[2], word.glob) for word in operands[1:] if "." in word.text)
        elif sub in {"rm", "mv"} and "--cached" not in self.command.options:
            for word in operands[1:]:
                self.act("git-delete", word)

    def tar(self) -> None:
        """`tar`: an archive is written, or files from it."""
        operands, options = list(self.command.operands), self.command.options
        first = self.command.words[1].text if len(self.command.words) > 1 else ""
        letters = first if first and not first.startswith("--") else ""
        bare = bool(letters) and not letters.startswith("-")
        archive = options.get("-f") or options.get("--file")
        if bare:
            operands = operands[1:]
            if "f" in letters and operands:
                archive = operands.pop(0).text
        flags = "".join(one.lstrip("-") for one in options if len(one) == 2) + letters
        directory = options.get("-C") or options.get("--directory")
        if "c" in flags or "--create" in options or "r" in flags.replace("--directory", ""):
            base = f"{directory}/" if directory else ""
            self.reads(
                [Word(word.text if word.text.startswith("/") else base + word.text, word.glob) for word in operands]
            )
            if archive and archive != "-":
                self.act("write", archive)
        elif "x" in flags or "--extract" in options:
            self.act("extract", directory or ".")

    def extract(self) -> None:
        """`unzip`."""
        if not self.command.options.keys() & {"-l", "-p", "-t", "-v"}:
            self.act("extract", self.command.options.get("-d") or ".")

    def zip(self) -> None:
        """`zip`: the first operand is written."""
        operands = self.command.operands
        self.reads(operands[1:])
        for word in operands[:1]:
            self.act("write", word)

    def rsync(self) -> None:
        """`rsync`: sends, or overwrites."""
        operands, options = self.command.operands, self.command.options
        if options.keys() & {"-n", "--dry-run", "--list-only"} or not operands:
            return
        target, sources = operands[-1], operands[:-1]
        self.reads(word for word in sources if not _is_remote(word.text))
        if _is_remote(target.text):
            self.host("send", target.text, "file")
            for word in sources:
                self.act("sent", word)
        else:
            deletes = any(one.startswith("--del") for one in options)
            self.act("delete-tree" if deletes else "write", target, "copy")

    def remote_copy(self) -> None:
        """`scp`, `rclone`."""
        if self.command.name == "rclone" and (
            {"--dry-run", "-n"} & self.command.options.keys()
            or not self.command.operands
            or self.command.operands[0].text not in {"copy", "sync", "move", "copyto", "moveto", "bisync", "rcat"}
        ):
            return
        operands = list(self.command.operands[self.command.starts :])
        if operands and (_is_remote(operands[-1].text)):
            self.host("send", operands[-1].text, "file")
            for word in operands[:-1]:
                self.act("sent", word)
        elif operands:
            self.act("write", operands[-1], "copy")

    def cloud_copy(self) -> None:
        """`aws s3 cp`, `gsutil cp`."""
        operands = self.command.operands
        sub = next((at for at, word in enumerate(operands[:2]) if word.text in {"cp", "mv", "sync", "rsync"}), -1)
        rest = operands[sub + 1 :] if sub >= 0 and not self.command.options.keys() & {"--dryrun", "-n"} else []
        target = next((at for at, word in enumerate(rest) if re.match(r"(?:s3|gs|az|r2)://", word.text)), 0)
        if target:
            self.host("send", rest[target].text, "file")
            for word in rest[:target]:
                self.act("sent", word)

    def connect_first(self) -> None:
        """Its first operand is a host."""
        for word in self.command.operands[:1]:
            self.host("connect", word.text, self.command.name)
        feed = self.command.feed
        if feed is not None and self.command.operands and self.command.name in {"ssh", "telnet", "sftp", "ftp"}:
            if feed.commands:
                self.bare("send-input")
            for path in re.findall(r"^\s*m?put\s+(\S+)", feed.text or "", re.MULTILINE):
                self.act("sent", path)

    def patch_text(self) -> None:
        """`apply_patch`, as agents know it: a patch from standard input."""
        text = (self.command.feed.text if self.command.feed else None) or " ".join(
            word.text for word in self.command.operands
        )
        for verb, path in re.findall(
            r"^\*\*\* (Add File|Update File|Delete File|Move to): (.+?)\s*$", text, re.MULTILINE
        ):
            self.act("delete" if verb == "Delete File" else "write", path, "edit")

    def curl(self) -> None:
        """`curl`: fetches, sends, writes."""
        words = self.command.words
        urls = [word.text for word in self.command.operands if not word.text.startswith("@")]
        sent: list[str] = []
        out = ""
        at = 1
        while at < len(words):
            text, following = words[at].text, words[at + 1].text if at + 1 < len(words) else ""
            name, value, step = _curl_option(text, following)
            at += step
            kind = _CURL.get(name)
            if kind is None and name.startswith("--"):
                kind = next((k for n, k in _CURL.items() if n.startswith(name) and len(name) > 5), None)
            if kind == "out":
                out = value
                self.act("write", value, "download")
            elif kind == "data":
                sent.append("data")
                if value.startswith("@"):
                    self._sent(value[1:])
            elif kind == "encode" and "@" in value:
                self._sent(value.partition("@")[2])
            elif kind in {"encode", "raw"}:
                sent.append("data")
            elif kind == "form":
                sent.append("data")
                if found := re.match(r"[^=]*=[@<]([^;]*)", value):
                    self._sent(found[1])
            elif kind == "upload":
                sent.append("file")
                self._sent(value)
            elif kind == "config" and value not in {"-", "/dev/null"}:
                self.act("read", value)
            elif kind == "proxy":
                self.host("connect", value)
            elif kind == "url":
                urls.append(value)
        if self.command.options.keys() & {"-O", "--remote-name", "-J"} and urls:
            out = urls[0].rstrip("/").rpartition("/")[2].partition("?")[0] or "index.html"
            self.act("write", out, "download")
        inside = [one for word in words[1:] for one in word.inside]
        variables = [name for word in words[1:] for name in word.variables]
        for url in urls:
            if url.startswith("file:"):
                self.act("read", url)
            else:
                self.host("send" if sent else "connect", url, "data" if sent else "")
        if inside or variables:
            self.bare("words-from", " ".join(variables))
        self._downloaded(out)

    def _sent(self, value: str) -> None:
        if value in {"-", "", "/dev/stdin"} or value.startswith("/dev/fd/"):
            feed = self.command.feed
            if feed is None or feed.commands or feed.text is None:
                self.bare("send-input")
        else:
            self.act("sent", value)
        self.bare("sends")

    def _downloaded(self, out: str) -> None:
        paths = [out] if out else []
        paths += [
            one.target.text
            for one in self.command.redirects
            if one.operator in {">", ">>", ">|", "&>"} and one.descriptor != "2"
        ]
        for path in paths:
            for cwd in self.command.cwds:
                if path != "-" and not path.startswith("/dev/"):
                    self.files.fetched.add(self.files.places.real(path, cwd))

    def wget(self) -> None:
        """`wget`."""
        options = self.command.options
        for name, value in options.items():
            if name in {"--post-file", "--body-file"} or (len(name) > 9 and "--post-file".startswith(name)):
                self._sent(value)
        kind = "send" if any(one.startswith(("--post", "--body")) for one in options) else "connect"
        for word in self.command.operands:
            self.host(kind, word.text, "data" if kind == "send" else "")
        out = options.get("-O") or options.get("--output-document") or ""
        if not out and self.command.operands:
            out = self.command.operands[0].text.rstrip("/").rpartition("/")[2]
        if out and out != "-" and not unknown(out):
            self.act("write", out, "download")
            self._downloaded(out)
        if any(word.inside or word.variables for word in self.command.words):
            self.bare("words-from", " ".join(name for word in self.command.words for name in word.variables))

    def httpie(self) -> None:
        """`http`, `xh`."""
        for word in self.command.operands:
            if "@" in word.text and "://" not in word.text:
                self._sent(word.text.rpartition("@")[2])
            elif "/" in word.text or "." in word.text or word.text.startswith(":"):
                self.host("connect", word.text)

    def netcat(self) -> None:
        """`nc`."""
        if "-l" not in self.command.options and self.command.operands:
            self.host("connect", self.command.operands[0].text, "netcat")
        if (
            self.command.options.keys() & {"-e", "-c", "--exec", "--sh-exec", "--lua-exec"}
            and "-z" not in self.command.options
        ):
            self.bare("reverse-shell")
        elif self.command.feed and "-z" not in self.command.options:
            self.bare("send-input")
            if self.command.feed.file is not None:
                self.act("sent", self.command.feed.file)

    def socat(self) -> None:
        """`socat`."""
        for word in self.command.operands:
            if re.match(r"(?i)(exec|system|shell):", word.text):
                self.bare("reverse-shell")
            elif found := re.match(r"(?i)(?:tcp|udp|openssl|ssl|tcp4|tcp6)(?:-connect)?:([^:,]+)", word.text):
                self.host("connect", found[1], "netcat")
            elif found := re.match(r"(?i)(?:file|open|gopen):([^,]+)", word.text):
                self.act("sent", found[1])
        if self.command.feed:
            self.bare("send-input")

    def openssl(self) -> None:
        """`openssl`: a client sends its input."""
        for option in ("-in", "-key", "-inkey"):
            if value := self.command.options.get(option):
                self.act("read", value)
        if "-out" in self.command.options:
            self.act("write", self.command.options["-out"])
        feed = self.command.feed
        if self.command.words[1:2] and self.command.words[1].text == "s_client":
            self.host("connect", self.command.options.get("-connect", ""))
            if feed and (feed.commands or feed.file is not None) and not (feed.file and feed.file.text == "/dev/null"):
                self.bare("send-input")
                if feed.file is not None:
                    self.act("sent", feed.file)

    def mail(self) -> None:
        """`mail`: sends its input and attachments."""
        self.reading.acts.append(Act("send", Target("", "remote", "mail"), self.command, "mail"))
        if self.command.feed:
            self.bare("send-input")
            if self.command.feed.file is not None:
                self.act("sent", self.command.feed.file)
        for option in ("-a", "-A"):
            if value := self.command.options.get(option):
                self.act("sent", value)

    def dns(self) -> None:
        """A look-up: names can carry data out."""
        for word in self.command.operands:
            if word.text.startswith("@"):
                continue
            if word.inside and any(one.name not in {"echo", "printf"} for one in word.inside):
                self.bare("dns-data", word.shown)
            elif word.variables and "." in word.text and re.search(f"{UNKNOWN}[^.]*\\.", word.text):
                self.bare("dns-variable", word.shown)
            self.host("look-up", word.text)

    def sql(self) -> None:
        """A database client: its statements."""
        self.reads(self.command.operands[:1])
        texts = [
            self.command.options.get(one, "")
            for one in ("-c", "--command", "-e", "--execute", "-q", "--query", "-Q", "--eval")
        ]
        texts += [word.text for word in self.command.operands if " " in word.text]
        feed = self.command.feed
        if feed is not None and feed.text:
            texts.append(feed.text)
        for text in texts:
            if text:
                self.bare("statement", without_strings(text))
        for option in ("-f", "--file"):
            if value := self.command.options.get(option):
                self.act("read", value)

    def redirects(self) -> None:
        """The files that redirections read, write or append to, and the hosts behind `/dev/tcp`."""
        for redirect in self.command.redirects:
            operator, word = redirect.operator, redirect.target
            if operator in {"<<<", ">&-", "<&-"} or word.text.startswith("__PICOHOOK_HERE_"):
                continue
            found = _NET_PATH.fullmatch(
                word.text.replace("//", "/")
                if word.text.startswith("/") and not word.text.startswith("//")
                else word.text
            )
            if found:
                self.host("connect", found[1], "socket")
                self.bare("socket")
            elif operator in {">&", "<&"} and (
                word.text.isdigit() or word.text.rstrip("-").isdigit() or word.text == "-"
            ):
                continue
            elif operator in {">", ">|", "&>", ">&", "<>"}:
                self.act("write", word, "redirect")
                self._kept(word)
            elif operator in {">>", "&>>"}:
                self.act("append", word, "redirect")
                self._kept(word)
            elif operator == "<":
                self.act("read", word)

    def _kept(self, word: Word) -> None:
        """Remember the text that a redirection writes, because the line may run it."""
        command = self.command
        if command.name in {"curl", "wget"} or (
            command.feed and any(one.name in {"curl", "wget"} for one in command.feed.commands)
        ):
            self._downloaded(word.text)
        if command.name not in {
            "echo",
            "printf",
            "cat",
            "base64",
            "openssl",
            "xxd",
            "tee",
            "{",
            "gunzip",
            "sed",
            "awk",
            "tr",
        }:
            return
        text = _printed(command)
        if text is not None:
            self.bare("content", text)
            self.act("memory", word, text)
        for cwd in command.cwds:
            if not unknown(word.text) and not word.text.startswith("/dev/"):
                self.files.texts[self.files.places.real(word.text, cwd)] = (
                    UNKNOWN if text is None or unknown(text) else text
                )

    def tee_kept(self) -> None:
        """What `tee` writes may be run, too."""
        feed = self.command.feed
        for word in self.command.operands if feed is not None else ():
            if any(one.name in {"curl", "wget"} for one in feed.commands if feed):  # type: ignore[union-attr]
                self._downloaded(word.text)
            elif not unknown(word.text):
                for cwd in self.command.cwds:
                    self.files.texts[self.files.places.real(word.text, cwd)] = (feed.text if feed else None) or UNKNOWN


def without_strings(statement: str) -> str:
    """A statement for a database without its literal texts."""
    has_sql = re.search(r"(?i)\b(?:select|insert|update|delete|drop)\b", statement)
    return re.sub(r"'(?:[^']|'')*'", "''", statement) if has_sql else statement


def _is_file(word: Word, cwd: str) -> bool:
    """Whether a word names one file: it looks like one, or is one."""
    name = word.text.rpartition("/")[2]
    looks = re.fullmatch(
        r"[\w-][\w.-]*\.(?:json|lock|txt|log|md|py|js|ts|tsx|toml|ya?ml|xml|csv|tgz|gz|zip|tmp|bak|out|o|a|so|pyc|db|sqlite3?|html|css|sh|png|pdf)",
        name,
    )
    return bool(looks) and not unknown(word.text) and not os.path.isdir(os.path.join(cwd, word.text))


def _printed(command: Command) -> str | None:
    from .words import ansi

    texts = [word.text for word in command.words[1:]]
    if command.name == "echo":
        return " ".join(text for text in texts if text not in {"-n", "-e"}) + "\n"
    if command.name == "printf" and texts:
        return (
            ansi(texts[0]) + "".join(texts[1:])
            if "%" not in texts[0]
            else ansi(re.sub("%[sb]", " ".join(texts[1:]), texts[0], count=1))
            if len(texts) < 3
            else None
        )
    if command.name == "cat" and not texts and command.feed is not None:
        return command.feed.text
    return None


def _is_remote(text: str) -> bool:
    return (
        bool(re.match(r"(?:[\w.-]+@)?[\w.-]+::?[^/\\]?|rsync://|scp://|sftp://", text))
        and ":" in text
        and not text.startswith(("/", "./", "~"))
    )


def _curl_option(text: str, following: str) -> tuple[str, str, int]:
    """The name and the value of a word of curl, and how many words they take."""
    if text.startswith("--"):
        name, equals, value = text.partition("=")
        if equals:
            return name, value, 1
        return (
            name,
            following,
            2 if name in _CURL or any(one.startswith(name) and len(name) > 5 for one in _CURL) else 1,
        )
    if text.startswith("-") and len(text) > 1:
        for at in range(1, len(text)):
            if text[at] in "HXdoTFuAebCcDEKmrtwxyYzPQU":
                rest = text[at + 1 :]
                return f"-{text[at]}", rest or following, 1 if rest else 2
    return "", "", 1


_CURL = {
    "-o": "out",
    "--output": "out",
    "-d": "data",
    "--data": "data",
    "--data-binary": "data",
    "--data-ascii": "data",
    "--json": "data",
    "--data-urlencode": "encode",
    "--url-query": "encode",
    "--data-raw": "raw",
    "--form-string": "raw",
    "-F": "form",
    "--form": "form",
    "-T": "upload",
    "--upload-file": "upload",
    "-K": "config",
    "--config": "config",
    "-x": "proxy",
    "--proxy": "proxy",
    "--preproxy": "proxy",
    "--url": "url",
}


def note(files: CallFiles, reading: Reading, command: Command, row: Row) -> None:
    """Note what a command does."""
    effects = Effects(files, reading, command, row)
    if command.redirects:
        effects.redirects()
    for name, value in command.assigned:
        effects.bare("variable", f"{name}={value}")
    if command.name in {"export", "declare", "typeset"}:
        for word in command.words[1:]:
            effects.bare("variable", word.text)
    if not command.wraps and not command.options.keys() & {"--help", "--version"}:
        known = _EFFECTS.get(row.effect)
        if known is not None:
            known(effects)
        if command.name == "tee":
            effects.tee_kept()


_EFFECTS: dict[str, Callable[[Effects], None]] = {
    name.replace("_", "-"): method
    for name, method in vars(Effects).items()
    if not name.startswith("_") and name not in {"act", "host", "bare", "reads", "redirects", "tee_kept"}
}
