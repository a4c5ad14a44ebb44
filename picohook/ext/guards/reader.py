"""Reads shell text: which commands run, with which words, where, and fed by what.

It walks the tree once. Each node is checked against the text, because a tree without errors can lack a command that bash runs.
What a check refuses is a doubt, and the walk continues with the next statement.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .names import listed
from .reading import Command, Feed, Reading, Redirect
from .syntax import MARK, Source, TooMuchError, UnreadableError, parse
from .words import DEFENDED, OPEN, PLAIN, QUOTED, SPLIT, UNKNOWN, Word, ansi, braces, hidden, shown, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tree_sitter import Node

DEEPEST = 60
"""How deep statements and substitutions may be in each other."""
MOST_COMMANDS = 2_000
MOST_STEPS = 5_000
"""Statements of a call, each as often as it is read: a loop's body once a value."""
TIME_FOR_CALL = 0.25
"""Seconds of the processor for one call, as a backstop."""
MOST_TEXTS = 40
_GAP = re.compile(rb"(?:[ \t]|\\\n)*[ \t](?:[ \t]|\\\n)*")
_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*")
_SAFE = re.compile(r"[\w./:=@%+,~^!*?\[\]{}#-]+")
_LEAF = re.compile(r"\\(\n)|\\(.)|([`'\"<>;&|() \t\n]|\$[\w({@*#?!$'\"-])|([^\\`'\"<>;&|() \t\n$]+|\$)", re.DOTALL)
_PATTERN = re.compile(r"\\(\n)|\\(.)|([`'\"]|\$[\w({@*#?!$'\"-]|[<>]\()|([^\\`'\"$<>]+|[$<>])", re.DOTALL)
_DOUBLE = re.compile(r"\\(\n)|\\([$`\"\\])|(`|\$[\w({@*#?!$-])|([^\\`$]+|[$\\])", re.DOTALL)
_PARAMETER = re.compile(
    r"\$\{([!#])?(\w+|[@*?$!#-])(\[(?:[^\]`$]|\$\w+)*\])?(?:(:?[-=+?]|##?|%%?|//?|\^\^?|,,?|@|:)(.*))?\}", re.DOTALL
)
_SIGIL = re.compile(r"\\([\\$`\n])|\$(\w+|[@*#?$!-])|\$\{(\w+)\}|(\$[({]|`)")
_PLAIN_SPECIAL = frozenset("?#$!-")
_NEVER_EMPTY = listed("never-empty")
_PLAIN_OUTPUT = listed("plain-output")
_ENDS = frozenset(("exit", "return", "die", "break", "continue", "fail", "abort"))
_SILENT = frozenset(("cd", "true", "set", "export", ":", "mkdir", "touch", "sleep", "unset"))
"""Commands that print nothing."""
_NAME_VARIABLES = frozenset(("let", "test", "[", "printf", "read", "unset", "mapfile", "readarray", "getopts", "wait"))
"""Commands that take names of variables, in whose indexes a shell runs substitutions."""
_NAMES_DATA = re.compile(r"\$\(|`")


@dataclass(slots=True)
class Scope:
    """What a shell knows at one point of a line."""

    cwds: tuple[str, ...]
    variables: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    """A tuple has the values that a variable may have."""
    arrays: dict[str, list[Word]] = field(default_factory=dict)
    sources: dict[str, tuple[Command, ...]] = field(default_factory=dict)
    """The commands whose output a variable has."""
    functions: dict[str, tuple[Source, Node]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    positional: list[str] | None = None
    before: tuple[str, ...] = ()
    """Where the shell still is if the last `cd` failed."""
    feed: Feed | None = None
    via: tuple[str, ...] = ()
    parallel: bool = False
    """Whether it is a stage of a pipe, or in the background."""
    strict: bool = False
    """Whether the first failure ends it: `set -e`."""
    odd: str = ""
    """Why the shell may mean something else by what follows."""

    def copy(self) -> Scope:
        """The same for a subshell, whose changes stay in it."""
        return replace(
            self,
            variables=dict(self.variables),
            arrays=dict(self.arrays),
            sources=dict(self.sources),
            functions=dict(self.functions),
            aliases=dict(self.aliases),
        )

    def settle(self) -> None:
        """The statement with the last `cd` has ended."""
        if self.before:
            self.cwds = tuple(dict.fromkeys((*self.cwds, *self.before)))[:4]
            self.before = ()

    def merge(self, branches: Sequence[Scope]) -> None:
        """Continue after one of these branches."""
        for branch in branches:
            branch.settle()
        self.cwds = tuple(dict.fromkeys(cwd for branch in branches for cwd in branch.cwds))[:4]
        for name in {name for branch in branches for name in branch.variables}:
            values: dict[str, None] = {}
            for branch in branches:
                value = branch.variables.get(name, self.variables.get(name, UNKNOWN))
                values |= dict.fromkeys(value if isinstance(value, tuple) else (value,))
            self.variables[name] = next(iter(values)) if len(values) == 1 else tuple(values)[:6]
        for branch in branches:
            self.sources |= branch.sources
            self.arrays |= branch.arrays
            self.functions |= branch.functions
            self.aliases |= branch.aliases


class Reader:
    """Reads the texts of one call into one reading."""

    def __init__(
        self, reading: Reading, *, home: str, root: str, started: Callable[[Reader, Command, Scope], None]
    ) -> None:
        """`root` is the project's. `started` is called for each command, in the order in which they are read."""
        self.reading, self.home, self.root = reading, home, root
        self._started = started
        self._depth = self._steps = 0
        self._end = time.thread_time() + TIME_FOR_CALL
        self._calling: list[str] = []
        self._source: Source
        self._inside: list[Command] = []
        self._unknown: list[str] = []

    # Texts.

    def read(self, text: str, scope: Scope) -> None:
        """Read a text in this scope, which it may change. Doubts are noted."""
        if not text.strip():
            return
        self.reading.texts += 1
        outer = getattr(self, "_source", None)
        try:
            if self.reading.texts > MOST_TEXTS or self._depth > DEEPEST:
                raise UnreadableError("too many texts are inside each other")
            self._source = source = parse(text)
            data, root = source.data, source.root
            if _BLANK.fullmatch(data, 0, root.start_byte) is None or _BLANK.fullmatch(data, root.end_byte) is None:
                raise UnreadableError("its syntax is not understood")
            self._statements(root, scope)
        except UnreadableError as error:
            self.reading.doubt(f"The text cannot be read: {error}.")
        finally:
            if outer is not None:
                self._source = outer

    def _raw(self, node: Node) -> str:
        return self._source.data[node.start_byte : node.end_byte].decode()

    # Statements.

    def _statements(self, node: Node, scope: Scope, children: Sequence[Node] | None = None) -> None:
        """Run the statements among the children of a node, in order."""
        children = node.children if children is None else children
        data = self._source.data
        end = children[0].start_byte if children else 0
        for at, child in enumerate(children):
            start = child.start_byte
            if start != end and _BLANK.fullmatch(data, end, start) is None:
                raise UnreadableError("its syntax is not understood")
            end = child.end_byte
            if not child.is_named:
                continue
            following = children[at + 1].type if at + 1 < len(children) else ""
            if following == "&":
                inner = scope.copy()
                inner.parallel = True
                self._run(child, inner)
            else:
                self._run(child, scope)
                scope.settle()

    def _run(self, node: Node, scope: Scope, redirects: tuple[Redirect, ...] = ()) -> None:
        """Run one statement."""
        self._depth += 1
        self._steps += 1
        try:
            if self._steps > MOST_STEPS or time.thread_time() > self._end:
                raise TooMuchError("it runs too many commands")
            if self._depth > DEEPEST:
                raise UnreadableError("its parts are too deep in each other")
            kind = node.type
            if kind == "command":
                self._command(node, scope, redirects)
            elif kind == "comment":
                self._comment(node)
            else:
                run = _RUNS.get(kind)
                if run is None:
                    raise UnreadableError("its syntax is not understood")
                if kind in _LAST:  # the tree gives them to all of it, the shell to the last command
                    _LAST[kind](self, node, scope, redirects)
                    return
                if redirects and kind != "redirected_statement":
                    scope = self._redirected(scope, redirects)
                run(self, node, scope)
        except TooMuchError:
            raise
        except UnreadableError as error:
            self.reading.doubt(f"`{self._raw(node)[:60]}` cannot be read: {error}.")
        finally:
            self._depth -= 1

    def _comment(self, node: Node) -> None:
        start = node.start_byte
        before = self._source.data[start - 1 : start]
        if before.strip(b" \t\n;&|()") or self._source.data[max(start - 2, 0) : start - 1] == b"\\":
            raise UnreadableError("a comment may be none")

    def _redirected(self, scope: Scope, redirects: Sequence[Redirect]) -> Scope:
        """The scope of a compound command with redirections, which are a command of their own."""
        feed = self._fed(redirects, scope.feed)
        self._add(Command([Word("{")], "{", scope.cwds, tuple(redirects), via=scope.via), scope)
        return scope if feed is scope.feed else replace(scope, feed=feed)

    def _redirected_statement(self, node: Node, scope: Scope) -> None:
        body: Node | None = None
        redirects: list[Redirect] = []
        extra: list[Node] = []
        for child in self._separated(node.children):
            if child.type.endswith("redirect"):
                redirect, more = self._redirect(child, scope)
                redirects.append(redirect)
                extra += more
            elif body is None:
                body = child
            else:
                raise UnreadableError("its syntax is not understood")
        if body is not None and body.type == "command":
            self._command(body, scope, tuple(redirects), extra)
        elif extra:
            raise UnreadableError("words after a redirection belong to no command")
        elif body is None:
            self._add(Command([Word("{")], "{", scope.cwds, tuple(redirects), via=scope.via), scope)
        else:
            self._run(body, scope, tuple(redirects))

    def _separated(self, children: Sequence[Node]) -> Sequence[Node]:
        """The children. Raises `UnreadableError` if there is something other than blanks between them."""
        data = self._source.data
        for one, after in itertools.pairwise(children):
            a, b = one.end_byte, after.start_byte
            if a != b and _GAP.fullmatch(data, a, b) is None:
                raise UnreadableError("its words cannot be told apart")
        return children

    def _redirect(self, node: Node, scope: Scope) -> tuple[Redirect, list[Node]]:
        """Returns the redirection, and the nodes that the tree counts to it and the shell does not."""
        descriptor, operator, targets = "", "", []
        at = 0
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = self._raw(child)
            elif not child.is_named:
                operator, at = child.type, child.start_byte
            else:
                targets.append(child)
        if node.type not in {"file_redirect", "herestring_redirect"}:
            raise UnreadableError("a here-document is not understood")
        self._separated(targets)
        if operator in {">&-", "<&-"} or (not targets and operator):
            return Redirect(operator, descriptor, Word("-")), targets
        if not targets:
            raise UnreadableError("a redirection is not understood")
        if node.type == "herestring_redirect" or at in self._source.strings:
            operator = "<<<"
        words = self._words_of(targets[:1], scope)
        if operator == "<<<":
            words = [
                Word(" ".join(word.text for word in words), inside=tuple(one for word in words for one in word.inside))
            ]
        if len(words) != 1:
            words = [Word(OPEN, variables=tuple(name for word in words for name in word.variables))]
        if operator == ">&" and _SAFE.fullmatch(self._raw(targets[0])) is None:
            raise UnreadableError("a redirection is expanded twice")
        return Redirect(operator, descriptor, words[0]), targets[1:]

    def _fed(self, redirects: Sequence[Redirect], feed: Feed | None) -> Feed | None:
        for redirect in redirects:
            if redirect.operator == "<<<":
                text = redirect.target.text
                feed = Feed(list(redirect.target.inside), None if unknown(text) else text)
            elif redirect.operator == "<" and redirect.descriptor in {"", "0"}:
                document = self._source.documents.get(redirect.target.text)
                if document is None:
                    feed = Feed(list(redirect.target.inside), file=redirect.target)
                else:
                    feed = Feed(list(redirect.target.inside), redirect.target.variables[0])
                    if unknown(redirect.target.variables[0]):
                        feed.text = None
        return feed

    def _command(
        self, node: Node, scope: Scope, redirects: tuple[Redirect, ...] = (), extra: Sequence[Node] = ()
    ) -> None:
        """Run a simple command."""
        data = self._source.data
        own: list[Redirect] = []
        assigned: list[tuple[str, str]] = []
        parts: list[Node] = []
        end = -1
        for child in node.children:
            kind, start = child.type, child.start_byte
            if (
                end >= 0
                and _GAP.fullmatch(data, end, start) is None
                and not (start == end and kind.endswith("redirect"))
            ):
                raise UnreadableError("its words cannot be told apart")
            end = child.end_byte
            if kind == "variable_assignment":
                assigned.append(self._assignment(child, scope))
            elif kind.endswith("redirect"):
                if own == [] and parts and data[start - 1 : start] == b"}":
                    raise UnreadableError("a redirection names a variable")
                redirect, more = self._redirect(child, scope)
                own.append(redirect)
                parts += more
            elif kind == "command_name":
                parts.append(child.children[0])
            elif kind == "subshell" and parts and self._raw(parts[0]) == "time":
                self._run(child, scope)
                return
            elif child.is_named or kind in {"=~", "==", "="}:
                parts.append(child)
            else:
                raise UnreadableError("its syntax is not understood")
        if redirects and parts and not scope.odd:
            last = self._raw(parts[-1])
            if (
                last.startswith("{")
                and last.endswith("}")
                and last[1:-1].isidentifier()
                and data[end : end + 1] in b"<>"
            ):
                parts.pop()  # `{fd}>file`
        parts += extra
        if any(isinstance(value, tuple) for value in scope.variables.values()):
            self._forked(parts, scope, tuple(own) + redirects, tuple(assigned))
        else:
            self.execute(self._words_of(parts, scope), scope, tuple(own) + redirects, tuple(assigned))

    def _forked(
        self, parts: list[Node], scope: Scope, redirects: tuple[Redirect, ...], assigned: tuple[tuple[str, str], ...]
    ) -> None:
        """Run a command once for each value that its variables may have."""
        used = set(re.findall(r"\$\{?(\w+)", " ".join(self._raw(part) for part in parts)))
        several = [
            (name, value) for name, value in scope.variables.items() if name in used and isinstance(value, tuple)
        ]
        choices: list[dict[str, str]] = [{}]
        for name, values in several:
            choices = [{**choice, name: value} for choice in choices for value in values][:8]
        variables = scope.variables
        for choice in choices:
            scope.variables = {**variables, **choice}
            self.execute(self._words_of(parts, scope), scope, redirects, assigned)
            changed = {n: v for n, v in scope.variables.items() if n not in choice or v != choice[n]}
            variables = {**variables, **changed}
        scope.variables = variables

    def execute(
        self,
        words: list[Word],
        scope: Scope,
        redirects: tuple[Redirect, ...] = (),
        assigned: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """A command with these words starts."""
        feed = self._fed(redirects, scope.feed) if redirects else scope.feed
        while words and words[0].text in {"time", "!", "-p", "{", "}"} and not words[0].inside:
            words = words[1:]
        if not words:
            if assigned:
                for name, value in assigned:
                    self.assign(name, value, scope)
            if redirects:
                self._add(Command([Word("{")], "{", scope.cwds, redirects, via=scope.via), scope)
            return
        first = words[0].text
        name = first.rpartition("/")[2]
        if name.isupper() and len(name) > 2:
            name = name.lower()  # some file systems ignore the case
        if unknown(name) or (words[0].glob and first != "["):
            name = ""
        if first in scope.aliases and not scope.via:
            alias = scope.aliases.pop(first)
            self.read(" ".join([alias, *(_requoted(word) for word in words[1:])]), scope)
            scope.aliases[first] = alias
            return
        if scope.odd and name not in {"echo", "cd", "export", "[", "true"}:
            self.reading.doubt(scope.odd)
        if name in _NAME_VARIABLES:
            if name == "let":
                self._require_plain_variables(scope)
            if any("[" in word.text and _NAMES_DATA.search(word.text) for word in words):
                raise UnreadableError("a variable's name may hold a command")
        command = Command(words, name, scope.cwds, redirects, assigned, feed, scope.via)
        if first in scope.functions and "/" not in first:
            self._call(command, scope)
        else:
            self._add(command, scope)

    def _add(self, command: Command, scope: Scope) -> None:
        if len(self.reading.commands) >= MOST_COMMANDS:
            raise UnreadableError("it runs too many commands")
        self.reading.commands.append(command)
        self._started(self, command, scope)

    def _call(self, command: Command, scope: Scope) -> None:
        """Run a function of the line."""
        source, body = scope.functions[command.name]
        called = f"{command.name} {body.id}"
        if called in self._calling:
            if scope.parallel:
                self._add(replace(command, name="fork-bomb"), scope)
            return
        outer, positional, feed = self._source, scope.positional, scope.feed
        self._source = source
        scope.positional = [word.text for word in command.words[1:]]
        scope.feed = command.feed
        self._calling.append(called)
        try:
            if command.redirects:
                self._add(Command([Word("{")], "{", scope.cwds, command.redirects, via=scope.via), scope)
            self._run(body, scope)
        finally:
            self._calling.pop()
            self._source, scope.positional, scope.feed = outer, positional, feed

    # Compound statements.

    def _list(self, node: Node, scope: Scope, redirects: tuple[Redirect, ...] = ()) -> None:
        """`a && b || c`, of which the tree makes a nest on the left."""
        chain: list[tuple[str, Node]] = []
        while node.type == "list":
            children = node.children
            if len(children) != 3 or children[1].is_named:
                raise UnreadableError("its syntax is not understood")
            left, sign, right = children
            data = self._source.data
            if not (
                _BLANK.fullmatch(data, left.end_byte, sign.start_byte)
                and _BLANK.fullmatch(data, sign.end_byte, right.start_byte)
            ):
                raise UnreadableError("its syntax is not understood")
            chain.append((sign.type, right))
            node = left
        self._run(node, scope)
        for left_over, (sign_text, right) in zip(reversed(range(len(chain))), reversed(chain), strict=True):
            own = () if left_over else redirects
            if sign_text == "&&":
                self._run(right, scope, own)
            else:
                branch = scope.copy()
                branch.settle()
                if branch.cwds != scope.cwds:
                    branch.cwds = scope.before
                self._run(right, branch, own)
                if self._ends(right):
                    scope.before = ()
                else:
                    scope.merge([replace(scope, before=scope.before), branch])

    def _ends(self, node: Node) -> bool:
        """Whether the shell does not continue after this."""
        text = self._raw(node).lstrip("({ \t\n").rstrip(")}; \t\n")
        return any(part.strip().split(" ")[0] in _ENDS for part in re.split(r"[;\n]|&&|\|\|", text)[-1:])

    def _pipeline(self, node: Node, scope: Scope, redirects: tuple[Redirect, ...] = ()) -> None:
        outer_feed = scope.feed
        stages = [child for child in node.children if child.is_named and child.type != "comment"]
        feed = outer_feed
        commands = self.reading.commands
        data = self._source.data
        for one, after in zip(node.children, node.children[1:], strict=False):
            if _BLANK.fullmatch(data, one.end_byte, after.start_byte) is None:
                raise UnreadableError("its syntax is not understood")
        for stage in stages:
            inner = scope.copy()
            inner.feed, inner.parallel = feed, True
            before = len(commands)
            self._run(stage, inner, redirects if stage is stages[-1] else ())
            made = commands[before:]
            text = self.output(made, inner)
            feed = Feed(
                [*(feed.commands if feed else []), *made], None if text is None or unknown(text) else f"{text}\n"
            )

    def _subshell(self, node: Node, scope: Scope) -> None:
        self._statements(node, scope.copy())

    def _compound(self, node: Node, scope: Scope) -> None:
        if node.children[0].type == "((":
            self._arithmetic(node, scope)
        else:
            self._statements(node, scope)

    def _negated(self, node: Node, scope: Scope, redirects: tuple[Redirect, ...] = ()) -> None:
        self._run(self._separated(node.children)[-1], scope, redirects)

    def _if(self, node: Node, scope: Scope, *, has_else: bool = False) -> None:
        branches: list[Scope] = []
        groups: list[list[Node]] = [[]]
        for child in node.children:
            if child.type in {"elif_clause", "else_clause", "then", "fi"}:
                groups.append([])
            groups[-1].append(child)
        self._statements(node, scope, groups[0])
        for group in groups[1:]:
            head = group[0].type
            if head == "fi":
                continue
            branch = scope.copy()
            if head == "elif_clause":
                self._if(group[0], branch, has_else=True)
            else:
                self._statements(node, branch, group[0].children if head == "else_clause" else group[1:])
                has_else = has_else or head == "else_clause"
            branches.append(branch)
        if not has_else:
            branches.append(scope.copy())
        scope.merge(branches)

    def _loop(self, node: Node, scope: Scope) -> None:
        branch = scope.copy()
        before = dict(branch.variables)
        self._statements(node, branch, [child for child in node.children if child.type != "do_group"])
        for child in node.children:
            if child.type == "do_group":
                self._statements(child, branch)
        self._grown(before, branch)
        scope.merge([scope.copy(), branch])

    @staticmethod
    def _grown(before: dict[str, str | tuple[str, ...]], branch: Scope) -> None:
        """A variable that a loop makes longer may have any value."""
        for name, value in branch.variables.items():
            old = before.get(name)
            if isinstance(old, str) and isinstance(value, str) and old and old != value and old in value:
                branch.variables[name] = UNKNOWN

    def _for(self, node: Node, scope: Scope) -> None:
        children = node.children
        name = next(self._raw(child) for child in children if child.type == "variable_name")
        values: list[Word] = []
        given = False
        for child in children:
            if child.type == "in":
                given = True
            elif given and child.is_named and child.type not in {"do_group", "comment", "compound_statement"}:
                values += self._words_of([child], scope)
        if not given:
            values = [Word(OPEN)] if scope.positional is None else [Word(value) for value in scope.positional]
        inside = tuple(command for word in values for command in word.inside)
        texts: dict[str, None] = {}
        for word in values:
            texts[word.text.replace(OPEN, UNKNOWN)] = None
        for text in list(texts)[:12] or [""]:
            branch = scope.copy()
            branch.variables[name] = text
            branch.sources[name] = inside
            before = dict(branch.variables)
            for child in children:
                if child.type in {"do_group", "compound_statement"}:
                    self._statements(child, branch)
            self._grown(before, branch)
            scope.merge([scope.copy(), branch])
        if len(texts) > 12:
            scope.variables[name] = UNKNOWN
            branch = scope.copy()
            for child in children:
                if child.type in {"do_group", "compound_statement"}:
                    self._statements(child, branch)

    def _c_for(self, node: Node, scope: Scope) -> None:
        self._arithmetic(node, scope, skip="do_group")
        branch = scope.copy()
        for child in node.children:
            if child.type in {"do_group", "compound_statement"}:
                self._statements(child, branch)
        scope.merge([scope.copy(), branch])

    def _case(self, node: Node, scope: Scope) -> None:
        branches = [scope.copy()]
        for child in node.children:
            if child.type == "case_item":
                branch = scope.copy()
                children = child.children
                at = next(at for at, one in enumerate(children) if one.type == ")")
                for pattern in children[:at]:
                    if pattern.is_named:
                        self._text(pattern, scope)
                self._statements(child, branch, children[at + 1 :])
                branches.append(branch)
            elif child.is_named and child.type != "comment":
                self._words_of([child], scope)
        scope.merge(branches)

    def _function(self, node: Node, scope: Scope) -> None:
        name = self._raw(next(child for child in node.children if child.is_named))
        body = node.children[-1]
        if body.type.endswith("redirect"):
            raise UnreadableError("a function has redirections")
        scope.functions[name] = (self._source, body)

    def _test(self, node: Node, scope: Scope) -> None:
        """`[ ... ]` and `[[ ... ]]`: nothing runs but the substitutions in it."""
        self._nested(node, scope)
        if (
            "-eq" in (raw := self._raw(node))
            or "-v" in raw
            or "-ne" in raw
            or "-gt" in raw
            or "-lt" in raw
            or "-ge" in raw
        ):
            self._require_plain_variables(scope)

    def _arithmetic(self, node: Node, scope: Scope, skip: str = "") -> None:
        self._require_plain_variables(scope)
        self._nested(node, scope, skip)
        for name in re.findall(
            r"\b([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=|\b([A-Za-z_]\w*)(?:\+\+|--)", self._raw(node)
        ):
            scope.variables[name[0] or name[1]] = PLAIN

    def _require_plain_variables(self, scope: Scope) -> None:
        for value in scope.variables.values():
            if "[" in value and _NAMES_DATA.search(value if isinstance(value, str) else " ".join(value)):
                raise UnreadableError("a variable may hold a command that arithmetic runs")

    def _nested(self, node: Node, scope: Scope, skip: str = "") -> None:
        """Run the substitutions in a node, and check its leaves."""
        for child in node.children:
            kind = child.type
            if kind == skip or not child.is_named:
                continue
            if kind in _TEXTS or not child.children:
                self._text(child, scope)
            else:
                self._depth += 1
                if self._depth > DEEPEST:
                    raise UnreadableError("its parts are too deep in each other")
                self._nested(child, scope)
                self._depth -= 1

    def _declaration(self, node: Node, scope: Scope) -> None:
        words: list[Word] = []
        for child in self._separated(node.children):
            if child.type == "variable_assignment":
                name, value = self._assignment(child, scope)
                self.assign(name, value, scope)
                words.append(Word(f"{name}={value}", inside=tuple(self._inside)))
            elif child.type == "variable_name":
                words.append(Word(self._raw(child)))
            elif child.is_named:
                for word in self._words_of([child], scope):
                    words.append(word)
                    name, equals, value = word.text.partition("=")
                    if equals and name.isidentifier():
                        self.assign(name, value, scope)
            else:
                words.append(Word(child.type))
        if any("[" in word.text and _NAMES_DATA.search(word.text) for word in words):
            raise UnreadableError("a variable may hold a command that arithmetic runs")
        self._add(Command(words, words[0].text, scope.cwds, via=scope.via, feed=scope.feed), scope)

    def _assignments(self, node: Node, scope: Scope) -> None:
        for child in node.children if node.type == "variable_assignments" else [node]:
            if child.is_named:
                self.assign(*self._assignment(child, scope), scope)

    def _unset(self, node: Node, scope: Scope) -> None:
        words = [Word(self._raw(child)) for child in self._separated(node.children)]
        for word in words[1:]:
            scope.variables[word.text] = ""
        self._add(Command(words, "unset", scope.cwds, via=scope.via), scope)

    def _assignment(self, node: Node, scope: Scope) -> tuple[str, str]:
        """Returns the name and the value."""
        children = node.children
        target, sign = children[0], children[1].type
        if target.type == "subscript":
            self._nested(target, scope)
            self._require_plain_variables(scope)
            name = self._raw(target).partition("[")[0]
            scope.arrays.pop(name, None)
        else:
            name = self._raw(target)
        value = ""
        self._inside, self._unknown = [], []
        if len(children) > 2 and children[2].type == "array":
            items = [
                word for child in children[2].children if child.is_named for word in self._words_of([child], scope)
            ]
            scope.arrays[name] = items
            value = items[0].text if items else ""
        elif len(children) > 2:
            if children[2].start_byte != children[1].end_byte or len(children) > 3:
                raise UnreadableError("an assignment is not understood")
            text = self._text(children[2], scope)
            if text.startswith("~") or ":~" in text:
                text = ":".join(self._tilde(part) for part in text.split(":"))
            value = shown(text).replace(SPLIT, " ").replace(OPEN, UNKNOWN)
        if sign == "+=":
            old = scope.variables.get(name, "")
            value = (old if isinstance(old, str) else UNKNOWN) + value
        elif target.type == "subscript":
            value = UNKNOWN
        scope.sources[name] = tuple(self._inside)
        return name, value

    def assign(self, name: str, value: str, scope: Scope) -> None:
        """The line sets a variable."""
        scope.variables[name] = value
        if name == "PATH" and not scope.odd:
            entries = [entry for entry in value.split(":") if entry.strip(UNKNOWN)]
            if any(not self._is_trusted_entry(entry) for entry in entries) or not value:
                scope.odd = "The line changes where programs are found."
        elif name in {"BASH_ENV", "ENV", "LD_PRELOAD", "PROMPT_COMMAND", "LD_LIBRARY_PATH"} and value:
            scope.odd = scope.odd or f"The line sets {name}, which changes what programs run."

    def _is_trusted_entry(self, entry: str) -> bool:
        if unknown(entry):
            return not entry.startswith((UNKNOWN, "/tmp")) or "/" in entry
        return not entry.startswith(("/tmp", "/var/tmp", "/dev/shm"))

    # Words.

    def _words_of(self, nodes: Iterable[Node], scope: Scope) -> list[Word]:
        """The words that the shell makes of these nodes."""
        words: list[Word] = []
        data = self._source.data
        for node in nodes:
            if node.type in {"word", "number"}:
                raw = data[node.start_byte : node.end_byte].decode()
                if _SAFE.fullmatch(raw) and not ("{" in raw or "~" in raw or "[" in raw):
                    words.append(Word(raw, "*" in raw or "?" in raw))
                    if MARK in raw and raw in self._source.documents:
                        self._document(words[-1], scope)
                    continue
            self._inside, self._unknown = [], []
            marked = self._text(node, scope)
            inside, names = tuple(self._inside), tuple(self._unknown)
            words += self._split(marked, inside, names)
        return words

    def _split(self, marked: str, inside: tuple[Command, ...], names: tuple[str, ...]) -> list[Word]:
        words: list[Word] = []
        try:
            texts = braces(marked) if "{" in marked else iter((marked,))
            for text in texts:
                tilded = self._tilde(text) if text.startswith("~") else text
                for part in tilded.split(SPLIT) if SPLIT in tilded else (tilded,):
                    if not part:
                        continue
                    glob = "*" in part or "?" in part or "[" in part
                    words.append(Word(shown(part), glob, inside, names))
        except ValueError:
            raise UnreadableError("braces make too many words") from None
        return words

    def _tilde(self, text: str) -> str:
        if not text.startswith("~"):
            return text
        user, slash, rest = text[1:].partition("/")
        if not user:
            return f"{self.home}{slash}{rest}"
        if user == "+":
            return text if unknown(rest) else f".{slash}{rest}"
        if user == "root":
            return f"/root{slash}{rest}"
        return f"{UNKNOWN}{slash}{rest}" if user == "-" else f"/home/{user}{slash}{rest}"

    def _document(self, word: Word, scope: Scope) -> None:
        """A here-document: its text is kept with the word."""
        document = self._source.documents[word.text]
        inner: list[Command] = []
        text = document.body
        if not document.literal and ("$" in text or "`" in text or "\\" in text):
            self._inside = []
            text = self._expanded(text, scope)
            inner = self._inside
        word.variables, word.inside = (text,), tuple(inner)

    def _expanded(self, text: str, scope: Scope) -> str:
        """The text of a here-document after expansion."""
        out: list[str] = []
        at = 0
        while True:
            found = _SIGIL.search(text, at)
            if found is None:
                return "".join([*out, text[at:]])
            out.append(text[at : found.start()])
            at = found.end()
            escaped, name, braced, opened = found.groups()
            if escaped is not None:
                out.append("" if escaped == "\n" else escaped)
            elif opened is None:
                out.append(shown(self._value(name or braced, scope, quoted=True)))
            elif opened == "`":
                end = re.compile(r"(?:[^\\`]|\\.)*`", re.DOTALL).match(text, at)
                if end is None:
                    raise UnreadableError("a here-document has an open back-tick")
                out.append(self._substituted(re.sub(r"\\([`$\\])", r"\1", text[at : end.end() - 1]), scope))
                at = end.end()
            else:
                end_at = _closing(text, at, ")" if opened == "$(" else "}")
                inner = text[at:end_at]
                if opened == "$(" and not inner.startswith("("):
                    out.append(self._substituted(inner, scope))
                else:
                    if _NAMES_DATA.search(inner):
                        raise UnreadableError("a here-document has an expansion that is not understood")
                    out.append(UNKNOWN)
                at = end_at + 1

    def _substituted(self, text: str, scope: Scope) -> str:
        """The output of a text that runs as a substitution."""
        inner = scope.copy()
        before = len(self.reading.commands)
        inside, names = self._inside, self._unknown
        self._depth += 1
        self.read(text, inner)
        self._depth -= 1
        made = self.reading.commands[before:]
        self._inside, self._unknown = [*inside, *made], names
        output = self.output(made, inner)
        return UNKNOWN if output is None else output

    def _text(self, node: Node, scope: Scope, *, quoted: bool = False) -> str:
        """The text of a node, with marks. Substitutions in it run."""
        kind = node.type
        if kind in {"word", "number", "variable_name", "test_operator", "special_variable_name", "file_descriptor"}:
            raw = self._raw(node)
            return raw if _SAFE.fullmatch(raw) else _literal(raw, _DOUBLE if quoted else _LEAF)
        if kind == "string":
            return self._string(node, scope)
        if kind == "raw_string":
            if quoted:
                raise UnreadableError("single quotes are inside double quotes")
            return hidden(self._raw(node)[1:-1]) + QUOTED
        if kind == "concatenation":
            children = node.children
            for one, after in itertools.pairwise(children):
                if one.end_byte != after.start_byte:
                    raise UnreadableError("its words cannot be told apart")
            return "".join([self._text(child, scope, quoted=quoted) for child in children])
        if kind == "simple_expansion":
            return self._simple(node, scope, quoted=quoted)
        if kind == "expansion":
            return self._parameter(node, scope, quoted=quoted)
        if kind == "command_substitution":
            return self._substitution(node, scope, quoted=quoted)
        if kind == "ansi_c_string":
            if quoted:
                raise UnreadableError("single quotes are inside double quotes")
            text = ansi(self._raw(node)[2:-1])
            if "\0" in text:
                raise UnreadableError("a text ends at a NUL")
            return hidden(text) + QUOTED
        if kind == "process_substitution":
            self._enter(node, scope)
            return "/dev/fd/63"
        if kind == "arithmetic_expansion":
            self._arithmetic(node, scope)
            return PLAIN
        if kind == "translated_string":
            return self._text(node.children[-1], scope, quoted=quoted)
        if kind in {"extglob_pattern", "regex", "heredoc_content"}:
            return _literal(self._raw(node), _PATTERN)
        if kind == "brace_expression" or not node.is_named:
            return self._raw(node)
        if kind in {"array", "subscript"} or not node.children:
            if not node.children:
                return _literal(self._raw(node), _PATTERN)
            self._nested(node, scope)
            return UNKNOWN
        raise UnreadableError("its syntax is not understood")

    def _string(self, node: Node, scope: Scope) -> str:
        data, children = self._source.data, node.children
        out: list[str] = []
        at = node.start_byte + 1
        for child in children[1:-1]:
            if child.start_byte > at:
                out.append(_literal(data[at : child.start_byte].decode(), _DOUBLE))
            at = child.end_byte
            if child.type == "string_content" or not child.is_named:
                out.append(_literal(self._raw(child), _DOUBLE))
            else:
                out.append(self._text(child, scope, quoted=True))
        if node.end_byte - 1 > at:
            out.append(_literal(data[at : node.end_byte - 1].decode(), _DOUBLE))
        return "".join(out) + QUOTED

    def _simple(self, node: Node, scope: Scope, *, quoted: bool) -> str:
        raw = self._raw(node)
        name = raw[1:]
        if not (name.isidentifier() and name.isascii()) and name not in "@*#?$!-_0123456789":
            if quoted and name[:1] in " \t\n" and not set(name) & set("$`("):
                return _literal(raw, _DOUBLE)
            raise UnreadableError("a variable has an odd name")
        return self._value(name, scope, quoted=quoted)

    def _value(self, name: str, scope: Scope, *, quoted: bool) -> str:
        """The value of a variable, with marks."""
        value = self.lookup(name, scope)
        self._inside += scope.sources.get(name, ())
        if value is None:
            self._unknown.append(name)
            return UNKNOWN if quoted and name != "@" else OPEN
        if quoted:
            return hidden(value)
        separators = scope.variables.get("IFS", " \t\n")
        if not isinstance(separators, str) or unknown(separators):
            return OPEN
        if UNKNOWN in value:
            value = value.replace(UNKNOWN, OPEN)
        return re.sub(f"[{re.escape(separators)}]+", SPLIT, value) if separators else value

    def lookup(self, name: str, scope: Scope) -> str | None:
        """The value of a variable; None if it is not known. It may have marks of unknown parts."""
        value = scope.variables.get(name)
        if value is not None:
            return value if isinstance(value, str) else UNKNOWN
        if name == "HOME":
            return self.home
        if name == "PWD":
            return scope.cwds[0] if len(scope.cwds) == 1 else None
        if name in {"TMPDIR", "TMP", "TEMP"}:
            return "/tmp"
        if name == "IFS":
            return " \t\n"
        if name in _NEVER_EMPTY or name in _PLAIN_SPECIAL:
            return PLAIN
        if name in {"CLAUDE_PROJECT_DIR", "GITHUB_WORKSPACE"}:
            return self.root
        if scope.positional is not None:
            if name in {"@", "*"}:
                return SPLIT.join(scope.positional)
            if name.isdigit() and name != "0":
                return scope.positional[int(name) - 1] if int(name) <= len(scope.positional) else ""
        return None

    def _parameter(self, node: Node, scope: Scope, *, quoted: bool) -> str:
        """`${...}`."""
        found = _PARAMETER.fullmatch(self._raw(node))
        operands: list[str] = []
        at = -1
        inside_outer = list(self._inside)
        for child in node.children[1:-1]:
            if child.is_named and child.type not in {"variable_name", "special_variable_name", "subscript"}:
                if at >= 0 and child.start_byte > at:
                    operands.append(hidden(_literal(self._source.data[at : child.start_byte].decode(), _PATTERN)))
                operands.append(self._text(child, scope, quoted=quoted))
                at = child.end_byte
            elif child.type == "subscript":
                self._nested(child, scope)
        del inside_outer
        if found is None:
            raise UnreadableError("an expansion is not understood")
        prefix, name, index, operator, rest = found.groups()
        if operator == "@" and rest != "Q":
            raise UnreadableError("an expansion may run a command")
        if (rest and _NAMES_DATA.search(rest) and not operands) or (
            quoted and rest and "'" in rest and operator != ":?"
        ):
            raise UnreadableError("an expansion is not understood")
        marks = UNKNOWN if quoted else OPEN
        if prefix == "#":
            return PLAIN
        if index is not None:
            return self._element(name, index, operator, scope, quoted=quoted)
        if prefix == "!":
            pointed = self.lookup(name, scope)
            if pointed is None or not pointed.isidentifier():
                if pointed is not None and "[" in pointed:
                    raise UnreadableError("an expansion may run a command")
                return marks
            return self._value(pointed, scope, quoted=quoted)
        if operator is None:
            return self._value(name, scope, quoted=quoted)
        value = self.lookup(name, scope)
        operand = "".join(operands)
        if operator[-1] in "-=+?":
            return self._default(name, operator, operand, scope, quoted=quoted)
        if value is None or unknown(value) or unknown(operand):
            self._inside += scope.sources.get(name, ())
            self._unknown.append(name)
            return marks
        edited = _edited(value, operator, shown(operand), rest)
        return marks if edited is None else hidden(edited) if quoted else re.sub(r"[ \t\n]+", SPLIT, edited)

    def _default(self, name: str, operator: str, operand: str, scope: Scope, *, quoted: bool) -> str:
        value = self.lookup(name, scope)
        if operator[-1] == "?":
            return DEFENDED if value is None else self._value(name, scope, quoted=quoted)
        if value is None:
            self._unknown.append(name)
            if operator[-1] == "=":
                scope.variables[name] = UNKNOWN
            return UNKNOWN if quoted else OPEN
        if operator[-1] == "+":
            return operand if value or operator == "+" else ""
        if value or operator[0] != ":":
            return self._value(name, scope, quoted=quoted)
        if operator[-1] == "=":
            scope.variables[name] = shown(operand)
        return operand

    def _element(self, name: str, index: str, operator: str | None, scope: Scope, *, quoted: bool) -> str:
        items = scope.arrays.get(name)
        marks = UNKNOWN if quoted and index != "[@]" else OPEN
        if items is None or operator is not None:
            self._unknown.append(name)
            return marks
        if index in {"[@]", "[*]"}:
            self._inside += [command for item in items for command in item.inside]
            self._unknown += [known for item in items for known in item.variables]
            return SPLIT.join(hidden(item.text) + QUOTED for item in items)
        try:
            return hidden(items[int(index[1:-1])].text)
        except (ValueError, IndexError):
            return marks

    def _substitution(self, node: Node, scope: Scope, *, quoted: bool) -> str:
        raw = self._raw(node)
        if raw.startswith("`") and "\\" in raw:
            text = re.sub(r'\\([`$\\"])' if quoted else r"\\([`$\\])", r"\1", raw[1:-1])
            output = self._substituted(text, scope)
        else:
            output = self._enter(node, scope)
        if quoted:
            return hidden(output)
        return re.sub(r"[ \t\n]+", SPLIT, output.replace(UNKNOWN, OPEN))

    def _enter(self, node: Node, scope: Scope) -> str:
        """Run the statements of a substitution. Returns its output, with marks."""
        inner = scope.copy()
        before = len(self.reading.commands)
        inside, names = self._inside, self._unknown
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnreadableError("its parts are too deep in each other")
        children = node.children
        redirects = [child for child in children if child.type == "file_redirect"]
        if redirects:  # `$(< file)`
            redirect, more = self._redirect(redirects[0], inner)
            if more or len(children) != 3:
                raise UnreadableError("a substitution is not understood")
            self._add(Command([Word("cat"), redirect.target], "cat", inner.cwds, via=inner.via), inner)
        else:
            self._statements(node, inner)
        self._depth -= 1
        made = self.reading.commands[before:]
        self._inside, self._unknown = [*inside, *made], names
        output = self.output(made, inner)
        return UNKNOWN if output is None else output

    def output(self, commands: Sequence[Command], scope: Scope) -> str | None:
        """The text that commands print, as far as it is known; None if it is not."""
        commands = [one for one in commands if one.name not in _SILENT]
        if len(commands) != 1 or any(
            one.operator[0] in ">&" and one.descriptor != "2" for one in commands[0].redirects
        ):
            return None
        command = commands[0]
        texts = [word.text for word in command.words[1:]]
        if command.name == "echo":
            while texts and texts[0] in {"-n", "-e", "-E", "-ne", "-en"}:
                if "e" in texts.pop(0):
                    texts = [ansi(text) for text in texts]
            return " ".join(texts)
        if command.name == "printf" and texts:
            return _formatted(texts[0], texts[1:])
        if command.name == "cat" and not [text for text in texts if text != "-"] and command.feed:
            return None if command.feed.text is None else command.feed.text.rstrip("\n")
        if command.name == "pwd":
            return scope.cwds[0] if len(scope.cwds) == 1 else None
        if command.name == "mktemp":
            return "/tmp/tmp.picohook" if not any(t.startswith("/") for t in texts) else None
        if command.name == "git" and texts[:2] == ["rev-parse", "--show-toplevel"]:
            return self.root
        if command.name in _PLAIN_OUTPUT or f"{command.name}-{(texts or [''])[0]}" in _PLAIN_OUTPUT:
            return PLAIN
        return None


def _literal(text: str, leaf: re.Pattern[str]) -> str:
    """A leaf's text without its quoting. Raises `UnreadableError` if the shell would find more in it than text."""
    out: list[str] = []
    for found in leaf.finditer(text):
        newline, escaped, special, plain = found.groups()
        if special is not None:
            raise UnreadableError("a part of it is not read")
        if escaped is not None:
            out.append(hidden(escaped))
        elif plain is not None:
            out.append(hidden(plain) if leaf is _DOUBLE else plain)
        elif newline is None:
            raise UnreadableError("a part of it is not read")
    if text.endswith("\\") and leaf is _LEAF and (len(text) - len(text.rstrip("\\"))) % 2:
        raise UnreadableError("it ends in a backslash")
    return "".join(out)


def _edited(value: str, operator: str, operand: str, rest: str) -> str | None:
    """`${value%operand}` and its like; None if it is not computed."""
    if operator in {"^^", ",,"} and not operand:
        return value.upper() if operator == "^^" else value.lower()
    if operator in {"^", ","} and not operand:
        return (value[:1].upper() if operator == "^" else value[:1].lower()) + value[1:]
    cuts = range(len(value) + 1)
    if operator[0] == "%":
        ends = [at for at in (reversed(cuts) if operator == "%" else cuts) if fnmatch.fnmatchcase(value[at:], operand)]
        return value[: ends[0]] if ends else value
    if operator[0] == "#":
        starts = [
            at for at in (cuts if operator == "#" else reversed(cuts)) if fnmatch.fnmatchcase(value[:at], operand)
        ]
        return value[starts[0] :] if starts else value
    if operator[0] == "/" and not re.search(r"[*?\[\\$'\"#%&]", rest):
        old, _, new = rest.partition("/")
        return value.replace(old, new) if operator == "//" else value.replace(old, new, 1)
    found = re.fullmatch(r"\s*(-?\d+)(?::(\d+))?", rest) if operator == ":" else None
    if found:
        start = int(found[1])
        return value[start:] if found[2] is None else value[start:][: int(found[2])]
    return None


def _formatted(form: str, values: list[str]) -> str | None:
    """What `printf` prints; None if it is not computed."""
    form = ansi(form).replace("%%", "%")
    if "%" not in form:
        return form
    if re.search(r"%[^sdbq]", form) or not form.count("%"):
        return None
    count = form.count("%")
    out: list[str] = []
    values = values or [""]
    while values:
        taken, values = values[:count], values[count:]
        at = iter([*taken, *[""] * (count - len(taken))])
        out.append(re.sub(r"%([sdbq])", lambda m, at=at: ansi(next(at)) if m[1] == "b" else next(at), form))  # type: ignore[misc]
    return "".join(out)


def _requoted(word: Word) -> str:
    return "'" + word.text.replace("'", "'\\''") + "'" if not unknown(word.text) else '"$PICOHOOK_UNKNOWN"'


def _closing(text: str, at: int, closing: str) -> int:
    """Where an expansion of a here-document ends. Raises `UnreadableError` if that is not certain."""
    depth, quote = 0, ""
    while at < len(text):
        letter = text[at]
        if letter == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "({":
            depth += 1
        elif letter in ")}":
            if depth == 0:
                if letter == closing:
                    return at
                break
            depth -= 1
        at += 1
    raise UnreadableError("a here-document has an expansion that is not understood")


_RUNS: dict[str, Callable[[Reader, Node, Scope], None]] = {
    "redirected_statement": Reader._redirected_statement,
    "list": Reader._list,
    "pipeline": Reader._pipeline,
    "subshell": Reader._subshell,
    "compound_statement": Reader._compound,
    "negated_command": Reader._negated,
    "if_statement": Reader._if,
    "while_statement": Reader._loop,
    "for_statement": Reader._for,
    "c_style_for_statement": Reader._c_for,
    "case_statement": Reader._case,
    "function_definition": Reader._function,
    "test_command": Reader._test,
    "declaration_command": Reader._declaration,
    "variable_assignment": Reader._assignments,
    "variable_assignments": Reader._assignments,
    "unset_command": Reader._unset,
}
_TEXTS = listed("texts")
_LAST: dict[str, Callable[[Reader, Node, Scope, tuple[Redirect, ...]], None]] = {
    "list": Reader._list,
    "pipeline": Reader._pipeline,
    "negated_command": Reader._negated,
}
