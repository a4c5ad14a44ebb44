"""Reads shell text: which commands run, with which words, where, and fed by what.

It walks the tree once. Each node is checked against the text, because a tree without errors can lack a command that bash runs.
What a check refuses is a doubt, and the walk continues with the next statement.
"""

from __future__ import annotations

import itertools
import re
import shlex
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .names import listed
from .reading import Command, Feed, Reading, Redirect
from .syntax import Source, TooMuchError, UnreadableError, expansions, parse
from .words import (
    DEFENDED,
    OPEN,
    PLAIN,
    QUOTED,
    SPLIT,
    UNKNOWN,
    Word,
    ansi,
    braces,
    edited,
    hidden,
    joined,
    known,
    printed,
    shown,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tree_sitter import Node

DEEPEST = 60
"""How deep statements and substitutions may be in each other."""
MOST_COMMANDS = 2_000
MOST_STEPS = 5_000
"""Statements of a call, each as often as it is read: a loop's body once a value."""
TIME_FOR_CALL = 0.25
"""Seconds of the processor for one call, as a backstop."""
MOST_TEXTS = 40
LONGEST_VALUE = 20_000
"""Characters of a variable's value that is followed."""
MOST_VALUES = 12
"""Values of a loop's variable that are tried."""
_GAP = re.compile(rb"(?:[ \t]|\\\n)*[ \t](?:[ \t]|\\\n)*")
_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*")
_SAFE = re.compile(r"[\w./:=@%+,~^!*?\[\]{}#-]+")
_PLAIN = re.compile(r"[\w./:=@%+,^#-]+")
_LEAF = re.compile(r"\\(\n)|\\(.)|([`'\"<>;&|() \t\n]|\$[\w({@*#?!$'\"-])|([^\\`'\"<>;&|() \t\n$]+|\$)", re.DOTALL)
_PATTERN = re.compile(r"\\(\n)|\\(.)|([`'\"]|\$[\w({@*#?!$'\"-]|[<>]\()|([^\\`'\"$<>]+|[$<>])", re.DOTALL)
_DOUBLE = re.compile(r"\\(\n)|\\([$`\"\\])|(`|\$[\w({@*#?!$-])|([^\\`$]+|[$\\])", re.DOTALL)
_PARAMETER = re.compile(
    r"\$\{([!#])?(\w+|[@*?$!#-])(\[(?:[^\]`$]|\$\w+)*\])?(?:(:?[-=+?]|##?|%%?|//?|\^\^?|,,?|@|:)(.*))?\}", re.DOTALL
)
_COUNTED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=|\+\+|--)")
"""Variables that arithmetic changes."""
_GLOB = re.compile(r"[*?\[]")
_SUBSTITUTION = re.compile(r"\$\(|`")
_NAMED_DESCRIPTOR = re.compile(rb"(?<!\$)\{\w+\}$")
_USUAL: dict[str, str] = {
    **dict.fromkeys((*listed("never-empty"), *"?#$!-"), PLAIN),
    **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), "/tmp"),
    "IFS": " \t\n",
}
"""Variables whose values are known, or known not to be empty."""
_PLAIN_OUTPUT = listed("plain-output")
_ENDS = re.compile(r"(?:^|[;\n&|({])\s*(?:exit|return|die|break|continue|fail|abort)\b[^;\n&|]*$")
_SILENT = frozenset(("cd", "true", "set", "export", ":", "mkdir", "touch", "sleep", "unset"))
"""Commands that print nothing."""
_NAME_VARIABLES = frozenset(("let", "test", "[", "printf", "read", "unset", "mapfile", "readarray", "getopts", "wait"))
"""Commands that take names of variables, in whose indexes a shell runs substitutions."""
_CHANGE_PROGRAMS = frozenset(("BASH_ENV", "ENV", "LD_PRELOAD", "PROMPT_COMMAND", "LD_LIBRARY_PATH"))
_BRANCHES = frozenset(("then", "elif_clause", "else_clause", "case_item", "do_group"))
_LAST = frozenset(("list", "pipeline", "negated_command"))
"""The tree gives the redirections after these to all of it, the shell to the last command."""
_TABLES = ("variables", "sources", "functions", "aliases")


@dataclass(slots=True)
class Scope:
    """What a shell knows at one point of a line."""

    cwds: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    """An array is a text of several parts."""
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
        copy = replace(self)
        for name in _TABLES:
            setattr(copy, name, dict(getattr(self, name)))
        return copy

    def settle(self) -> None:
        """The statement with the last `cd` has ended."""
        if self.before:
            self.cwds = tuple(dict.fromkeys((*self.cwds, *self.before)))[:4]
            self.before = ()

    def merge(self, *branches: Scope) -> None:
        """Continue after one of these branches."""
        for branch in branches:
            branch.settle()
        self.cwds = tuple(dict.fromkeys(cwd for branch in branches for cwd in branch.cwds))[:4]
        for name in {name for branch in branches for name in branch.variables}:
            values = {branch.variables.get(name, self.variables.get(name, UNKNOWN)) for branch in branches}
            self.variables[name] = values.pop() if len(values) == 1 else UNKNOWN
        for branch, name in itertools.product(branches, _TABLES[1:]):
            getattr(self, name).update(getattr(branch, name))


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
        self._source = _NOTHING
        self._late: dict[int, tuple[list[Redirect], list[Node]]] = {}
        """Redirections that the tree has around a command, and words of it after them, by its node."""
        self._inside: list[Command] = []
        """The commands whose output is a part of the word that is read."""
        self._unknown: list[str] = []
        """The variables of unknown value in it."""
        self._usual = _USUAL | {"HOME": home, "CLAUDE_PROJECT_DIR": root, "GITHUB_WORKSPACE": root}

    # Texts.

    def read(self, text: str, scope: Scope) -> None:
        """Read a text in this scope, which it may change. Doubts are noted."""
        if not text.strip():
            return
        self.reading.texts += 1
        outer = self._source
        try:
            if self.reading.texts > MOST_TEXTS or self._depth > DEEPEST:
                raise UnreadableError("too many texts are inside each other")
            self._source = source = parse(text)
            data, root = source.data, source.root
            if not (_BLANK.fullmatch(data, 0, root.start_byte) and _BLANK.fullmatch(data, root.end_byte)):
                raise UnreadableError("its syntax is not understood")
            self._statements(root.children, scope)
        except UnreadableError as error:
            self.reading.doubt(f"The text cannot be read: {error}.")
        finally:
            self._source = outer

    def _raw(self, node: Node) -> str:
        return self._source.data[node.start_byte : node.end_byte].decode()

    def _apart(self, nodes: Iterable[Node], gap: re.Pattern[bytes] = _BLANK) -> Iterator[Node]:
        """Yields the nodes. Raises `UnreadableError` where something other than blanks is before one."""
        end = -1
        for node in nodes:
            if end not in {-1, node.start_byte} and gap.fullmatch(self._source.data, end, node.start_byte) is None:
                raise UnreadableError("its words cannot be told apart")
            end = node.end_byte
            yield node

    # Statements.

    def _statements(self, nodes: Sequence[Node], scope: Scope) -> None:
        """Run the statements among these nodes, in order."""
        for node, after in zip(self._apart(nodes), [*nodes[1:], None], strict=True):
            if node.is_named and after is not None and after.type == "&":
                inner = scope.copy()
                inner.parallel = True
                self._run(node, inner)
            elif node.is_named:
                self._run(node, scope)
                scope.settle()

    def _run(self, node: Node, scope: Scope) -> None:
        """Run one statement."""
        try:
            self._enter()
            redirects, words = self._late.pop(node.id, ((), ()))
            run = _RUNS.get(node.type)
            if node.type == "command":
                self._command(node, scope, redirects, words)
            elif run is None or words:
                raise UnreadableError("its syntax is not understood")
            else:
                if redirects:
                    self._redirected(redirects, scope)
                    feed = self._fed(redirects, scope.feed)
                    scope = scope if feed is scope.feed else replace(scope, feed=feed)
                run(self, node, scope)
        except TooMuchError:
            raise
        except UnreadableError as error:
            self.reading.doubt(f"`{self._raw(node)[:60]}` cannot be read: {error}.")
        finally:
            self._depth -= 1

    def _enter(self) -> None:
        """Go one level deeper. Raises `UnreadableError` if that is too deep, and `TooMuchError` if it takes too long."""
        self._depth += 1
        self._steps += 1
        if self._steps > MOST_STEPS or time.thread_time() > self._end:
            raise TooMuchError("it runs too many commands")
        if self._depth > DEEPEST:
            raise UnreadableError("its parts are too deep in each other")

    def _comment(self, node: Node, _scope: Scope) -> None:
        before = self._source.data[max(node.start_byte - 2, 0) : node.start_byte]
        if before[-1:].strip(b" \t\n;&|()") or before[:-1] == b"\\":
            raise UnreadableError("a comment may be none")

    def _redirected(self, redirects: Sequence[Redirect], scope: Scope) -> None:
        """Note the redirections of no command, or of several: they are a command of their own."""
        self._add(Command([Word("{")], "{", scope.cwds, tuple(redirects), via=scope.via), scope)

    def _redirected_statement(self, node: Node, scope: Scope) -> None:
        bodies: list[Node] = []
        redirects: list[Redirect] = []
        words: list[Node] = []
        for child in self._apart(node.children, _GAP):
            if child.type.endswith("redirect"):
                redirects.append(self._redirect(child, scope, words))
            else:
                bodies.append(child)
        if not bodies and not words:
            self._redirected(redirects, scope)
            return
        if len(bodies) != 1:
            raise UnreadableError("its syntax is not understood")
        last = bodies[0]
        while last.type in _LAST:
            last = last.named_children[-1]
        self._late[last.id] = redirects, words
        try:
            self._run(bodies[0], scope)
        finally:
            self._late.pop(last.id, None)

    def _redirect(self, node: Node, scope: Scope, words: list[Node]) -> Redirect:
        """Returns the redirection. Adds to `words` the nodes that the tree counts to it and the shell does not."""
        if node.type not in {"file_redirect", "herestring_redirect"}:
            raise UnreadableError("a here-document is not understood")
        if _NAMED_DESCRIPTOR.search(self._source.data[max(node.start_byte - 40, 0) : node.start_byte]):
            raise UnreadableError("a redirection names a variable")
        descriptor, (sign, *targets) = "", node.children
        if sign.type == "file_descriptor":
            descriptor, (sign, *targets) = self._raw(sign), targets
        targets = [*self._apart(targets, _GAP)]
        if not targets or sign.type in {">&-", "<&-"}:
            words += targets
            return Redirect(sign.type, descriptor, Word("-"))
        target, *more = targets
        words += more
        raw = self._raw(target)
        if sign.type == ">&" and _SAFE.fullmatch(raw) is None:
            raise UnreadableError("a redirection is expanded twice")
        if raw in self._source.documents:
            return Redirect("<<<", descriptor, self._document(raw, scope))
        made = self._words_of([target], scope)
        if sign.type == "<<<" or sign.start_byte in self._source.strings:
            return Redirect("<<<", descriptor, joined(made))
        several = Word(OPEN, variables=tuple(name for word in made for name in word.variables))
        return Redirect(sign.type, descriptor, made[0] if len(made) == 1 else several)

    def _fed(self, redirects: Iterable[Redirect], feed: Feed | None) -> Feed | None:
        for operator, descriptor, target in redirects:
            if operator == "<<<":
                feed = Feed(list(target.inside), known(target.text))
            elif operator == "<" and descriptor in {"", "0"}:
                feed = Feed(list(target.inside), file=target)
        return feed

    def _command(self, node: Node, scope: Scope, redirects: Iterable[Redirect], words: Iterable[Node]) -> None:
        """Run a simple command. It may have redirections and words after its node."""
        own: list[Redirect] = []
        assigned: list[tuple[str, str]] = []
        parts: list[Node] = []
        for child in self._apart(node.children, _GAP):
            kind = child.type
            if kind.endswith("redirect"):
                own.append(self._redirect(child, scope, parts))
            elif not (child.is_named or kind in {"=~", "==", "="}):
                raise UnreadableError("its words cannot be told apart")
            elif kind == "variable_assignment":
                assigned.append(self._assignment(child, scope))
            elif kind == "subshell" and parts and self._raw(parts[0]) == "time":
                self._run(child, scope)
                return
            else:
                parts.append(child.children[0] if kind == "command_name" else child)
        parts += words
        self.execute(self._words_of(parts, scope), scope, (*own, *redirects), tuple(assigned))

    def execute(
        self,
        words: list[Word],
        scope: Scope,
        redirects: tuple[Redirect, ...] = (),
        assigned: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """A command with these words starts."""
        while words and words[0].text in {"time", "!", "-p", "{", "}"} and not words[0].inside:
            words = words[1:]
        if not words:
            for name, value in assigned:
                self.assign(name, value, scope)
            if redirects:
                self._redirected(redirects, scope)
            return
        first = words[0].text
        name = first.rpartition("/")[2]
        if name.isupper() and len(name) > 2:
            name = name.lower()  # some file systems ignore the case
        if unknown(name) or (words[0].glob and first != "["):
            name = ""
        if first in scope.aliases and not scope.via:
            alias = scope.aliases.pop(first)
            self.read(" ".join([alias, *map(_quoted, words[1:])]), scope)
            scope.aliases[first] = alias
            return
        if scope.odd and name not in {"echo", "cd", "export", "[", "true"}:
            self.reading.doubt(scope.odd)
        if name in _NAME_VARIABLES:
            if name == "let":
                self._require_plain_variables(scope)
            self._require_plain_names(words)
        feed = self._fed(redirects, scope.feed)
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
        outer = self._source, scope.positional, scope.feed
        self._calling.append(called)
        try:
            if command.redirects:
                self._redirected(command.redirects, scope)
            self._source, scope.feed = source, command.feed
            scope.positional = [word.text for word in command.words[1:]]
            self._run(body, scope)
        finally:
            self._calling.pop()
            self._source, scope.positional, scope.feed = outer

    # Compound statements.

    def _list(self, node: Node, scope: Scope) -> None:
        """`a && b || c`, of which the tree makes a nest on the left."""
        chain: list[tuple[str, Node]] = []
        while node.type == "list":
            parts = [*self._apart(node.children)]
            if len(parts) != 3:
                raise UnreadableError("its syntax is not understood")
            chain.append((parts[1].type, parts[2]))
            node = parts[0]
        self._run(node, scope)
        for sign, right in reversed(chain):
            if sign == "&&":
                self._run(right, scope)
                continue
            branch = scope.copy()
            if scope.before:
                branch.cwds, branch.before = scope.before, ()  # a `cd` failed
            self._run(right, branch)
            if _ENDS.search(self._raw(right).rstrip(")}; \t\n")):
                scope.before = ()
            else:
                scope.merge(replace(scope), branch)

    def _pipeline(self, node: Node, scope: Scope) -> None:
        feed = scope.feed
        for stage in self._apart(node.children):
            if not stage.is_named or stage.type == "comment":
                continue
            inner = scope.copy()
            inner.feed, inner.parallel = feed, True
            before = len(self.reading.commands)
            self._run(stage, inner)
            made = self.reading.commands[before:]
            text = self.output(made, inner)
            text = None if text is None or unknown(text) else f"{text}\n"
            feed = Feed([*(feed.commands if feed else ()), *made], text)

    def _subshell(self, node: Node, scope: Scope) -> None:
        self._statements(node.children, scope.copy())

    def _compound(self, node: Node, scope: Scope) -> None:
        if node.children[0].type == "((":
            self._arithmetic(node, scope)
        else:
            self._statements(node.children, scope)

    def _negated(self, node: Node, scope: Scope) -> None:
        *_, last = self._apart(node.children, _GAP)
        self._run(last, scope)

    def _branches(self, node: Node, scope: Scope) -> None:
        """`if`, `while`, `case`: what comes first runs, then one of the branches."""
        self._statements([*itertools.takewhile(lambda child: child.type not in _BRANCHES, node.children)], scope)
        self._one_of(node, scope)

    def _one_of(self, node: Node, scope: Scope) -> None:
        """One of the branches among the children of a node runs, or none of them."""
        children = node.children
        starts = [at for at, child in enumerate(children) if child.type in _BRANCHES]
        if not starts:
            raise UnreadableError("its syntax is not understood")
        branches: list[Scope] = []
        for start, end in itertools.pairwise([*starts, len(children)]):
            branch = scope.copy()
            head = children[start]
            self._statements(children[start:end] if head.type == "then" else head.children, branch)
            branches.append(branch)
        if children[starts[-1]].type != "else_clause":
            branches.append(scope.copy())
        scope.merge(*branches)

    def _for(self, node: Node, scope: Scope) -> None:
        values = [Word(OPEN)] if scope.positional is None else [Word(value) for value in scope.positional]
        children = [*self._apart(node.children)]
        name = self._raw(children[1])
        if children[2].type == "in":
            values = self._words_of([child for child in children[3:] if child.type in _TEXTS], scope)
        inside = tuple(command for word in values for command in word.inside)
        texts = list(dict.fromkeys(word.text.replace(OPEN, UNKNOWN) for word in values)) or [""]
        if len(texts) > MOST_VALUES:
            texts[MOST_VALUES:] = [UNKNOWN]
        for text in texts:
            scope.variables[name], scope.sources[name] = text, inside
            self._one_of(node, scope)

    def _c_for(self, node: Node, scope: Scope) -> None:
        self._arithmetic(node, scope)
        self._one_of(node, scope)

    def _in_case(self, node: Node, scope: Scope) -> None:
        """The word or a pattern of `case`."""
        if node.parent is None or not node.parent.type.startswith("case_"):
            raise UnreadableError("its syntax is not understood")
        self._text(node, scope)

    def _function(self, node: Node, scope: Scope) -> None:
        body = node.children[-1]
        if body.type.endswith("redirect"):
            raise UnreadableError("a function has redirections")
        scope.functions[self._raw(node.named_children[0])] = self._source, body

    def _test(self, node: Node, scope: Scope) -> None:
        """`[ ... ]` and `[[ ... ]]`: nothing runs but the substitutions in it."""
        self._nested(node, scope)
        self._require_plain_variables(scope)

    def _arithmetic(self, node: Node, scope: Scope) -> None:
        self._require_plain_variables(scope)
        self._nested(node, scope)
        for name in _COUNTED.findall(self._raw(node)):
            scope.variables[name] = PLAIN

    def _require_plain_variables(self, scope: Scope) -> None:
        for value in scope.variables.values():
            if "[" in value and _SUBSTITUTION.search(value):
                raise UnreadableError("a variable may hold a command that arithmetic runs")

    def _require_plain_names(self, words: Iterable[Word]) -> None:
        if any("[" in word.text and _SUBSTITUTION.search(word.text) for word in words):
            raise UnreadableError("a variable's name may hold a command")

    def _nested(self, node: Node, scope: Scope) -> None:
        """Run the substitutions in a node, and check its leaves. A loop's body is none of it."""
        for child in node.named_children:
            if child.type in _TEXTS or not child.children:
                self._text(child, scope)
            elif child.type != "do_group":
                self._enter()
                self._nested(child, scope)
                self._depth -= 1

    def _declaration(self, node: Node, scope: Scope) -> None:
        """`export`, `local`, `unset` and their like."""
        words: list[Word] = []
        for child in self._apart(node.children, _GAP):
            if child.type == "variable_assignment":
                name, value = self._assignment(child, scope)
                words.append(Word(f"{name}={value}", inside=tuple(self._inside)))
            elif child.type in _TEXTS:
                words += self._words_of([child], scope)
            else:
                words.append(Word(self._raw(child)))
        counts = any(re.fullmatch("-(?![xgr]+$).*", word.text) for word in words)  # then values are computed, too
        self._require_plain_names(words if counts else [Word(word.text.partition("=")[0]) for word in words])
        for word in words[1:]:
            name, equals, value = word.text.partition("=")
            if words[0].text == "unset":
                scope.variables[name] = ""
            elif equals and name.isidentifier():
                self.assign(name, value, scope)
        self._add(Command(words, words[0].text, scope.cwds, via=scope.via, feed=scope.feed), scope)

    def _assignments(self, node: Node, scope: Scope) -> None:
        for child in node.named_children if node.type == "variable_assignments" else [node]:
            self.assign(*self._assignment(child, scope), scope)

    def _assignment(self, node: Node, scope: Scope) -> tuple[str, str]:
        """Returns the name and the value."""
        target, sign, *rest = node.children
        name = self._raw(target).partition("[")[0]
        if target.type == "subscript":
            self._nested(target, scope)
            self._require_plain_variables(scope)
        value = ""
        self._inside, self._unknown = [], []
        if rest and rest[0].type == "array":
            items = self._words_of(rest[0].named_children, scope)
            value = SPLIT.join(word.text for word in items)
            self._inside = [command for word in items for command in word.inside]
        elif rest:
            if rest[0].start_byte != sign.end_byte or len(rest) > 1:
                raise UnreadableError("an assignment is not understood")
            text = ":".join(map(self._tilde, self._text(rest[0], scope).split(":")))
            value = shown(text).replace(SPLIT, " ").replace(OPEN, UNKNOWN)
        if sign.type == "+=":
            value = scope.variables.get(name, "") + value
        elif target.type == "subscript":
            value = UNKNOWN
        scope.sources[name] = tuple(self._inside)
        return name, value if len(value) <= LONGEST_VALUE else UNKNOWN

    def assign(self, name: str, value: str, scope: Scope) -> None:
        """The line sets a variable."""
        scope.variables[name] = value
        if scope.odd:
            return
        if name == "PATH":
            entries = [entry for entry in value.split(":") if entry.strip(UNKNOWN)]
            if not value or any(re.match(r"/tmp|/var/tmp|/dev/shm|\U0010f001[^/]*$", entry) for entry in entries):
                scope.odd = "The line changes where programs are found."
        elif name in _CHANGE_PROGRAMS and value:
            scope.odd = f"The line sets {name}, which changes what programs run."

    # Words.

    def _words_of(self, nodes: Iterable[Node], scope: Scope) -> list[Word]:
        """The words that the shell makes of these nodes. Those without a blank between them are one word."""
        words: list[Word] = []
        groups: list[list[Node]] = []
        for node in nodes:
            if groups and groups[-1][-1].end_byte == node.start_byte:
                groups[-1].append(node)
            else:
                groups.append([node])
        for group in groups:
            if len(group) == 1 and group[0].type == "word" and _PLAIN.fullmatch(raw := self._raw(group[0])):
                words.append(Word(raw))
                continue
            self._inside, self._unknown = [], []
            marked = "".join([self._text(node, scope) for node in group])
            inside, names = tuple(self._inside), tuple(self._unknown)
            try:
                texts = braces(marked) if "{" in marked else (marked,)
            except ValueError:
                raise UnreadableError("braces make too many words") from None
            for text in texts:
                parts = filter(None, self._tilde(text).split(SPLIT))
                words += [Word(shown(part), _GLOB.search(part) is not None, inside, names) for part in parts]
        return words

    def _tilde(self, text: str) -> str:
        if not text.startswith("~"):
            return text
        user, slash, rest = text[1:].partition("/")
        if user == "+" and unknown(rest):
            return text
        homes = {"": self.home, "+": ".", "-": UNKNOWN, "root": "/root"}
        return homes.get(user, f"/home/{user}") + slash + rest

    def _document(self, name: str, scope: Scope) -> Word:
        """The text of a here-document, as a word."""
        document, self._inside = self._source.documents[name], []
        parts = [(document.body, False)] if document.literal else expansions(document.body)
        text = "".join(self._expanded(part, scope) if expands else part for part, expands in parts)
        return Word(text, inside=tuple(self._inside))

    def _expanded(self, text: str, scope: Scope) -> str:
        """An expansion of a here-document: it is the same in double quotes."""
        outer, self._source = self._source, parse(f'"{text}"')
        try:
            self._enter()
            (string,) = self._source.root.children[0].children[0].children
            return shown(self._text(string, scope))
        finally:
            self._depth -= 1
            self._source = outer

    def _text(self, node: Node, scope: Scope, *, quoted: bool = False) -> str:
        """The text of a node, with marks. Substitutions in it run."""
        if not node.is_named:
            return _literal(self._raw(node), _DOUBLE) if quoted else self._raw(node)
        read = _TEXTS.get(node.type)
        if read is not None:
            return read(self, node, scope, quoted)
        if node.children:
            raise UnreadableError("its syntax is not understood")
        return _literal(self._raw(node), _PATTERN)

    def _leaf(self, node: Node, _scope: Scope, quoted: bool) -> str:
        raw = self._raw(node)
        return raw if _SAFE.fullmatch(raw) else _literal(raw, _DOUBLE if quoted else _LEAF)

    def _pattern(self, node: Node, _scope: Scope, _quoted: bool) -> str:
        return _literal(self._raw(node), _PATTERN)

    def _string(self, node: Node, scope: Scope, _quoted: bool) -> str:
        parts = node.children[1:-1]
        return self._pieces(parts, node.start_byte + 1, node.end_byte - 1, scope, _DOUBLE, quoted=True) + QUOTED

    def _pieces(
        self, nodes: Iterable[Node], start: int, end: int, scope: Scope, leaf: re.Pattern[str], *, quoted: bool
    ) -> str:
        """The texts of nodes, and what is between them."""
        out: list[str] = []
        for node in nodes:
            between = self._source.data[start : node.start_byte].decode()
            out += [hidden(_literal(between, leaf)), self._text(node, scope, quoted=quoted)]
            start = node.end_byte
        return "".join([*out, hidden(_literal(self._source.data[start:end].decode(), leaf))])

    def _single(self, node: Node, _scope: Scope, quoted: bool) -> str:
        """`'...'` and `$'...'`."""
        if quoted:
            raise UnreadableError("single quotes are inside double quotes")
        raw = self._raw(node)
        text = ansi(raw[2:-1]).partition("\0")[0] if raw[0] == "$" else raw[1:-1]
        return hidden(text) + QUOTED

    def _concatenation(self, node: Node, scope: Scope, quoted: bool) -> str:
        if any(one.end_byte != after.start_byte for one, after in itertools.pairwise(node.children)):
            raise UnreadableError("its words cannot be told apart")
        return "".join([self._text(child, scope, quoted=quoted) for child in node.children])

    def _simple(self, node: Node, scope: Scope, quoted: bool) -> str:
        """`$name`."""
        raw = self._raw(node)
        name = raw[1:]
        if not (name.isidentifier() and name.isascii()) and name not in "@*#?$!-_0123456789":
            if quoted and name[:1] in " \t\n" and not set(name) & set("$`("):
                return _literal(raw, _DOUBLE)
            raise UnreadableError("a variable has an odd name")
        return self._value(name, scope, quoted)

    def _value(self, name: str, scope: Scope, quoted: bool) -> str:
        """The value of a variable, with marks."""
        value = self._lookup(name, scope)
        self._inside += scope.sources.get(name, ())
        if value is None:
            self._unknown.append(name)
            return UNKNOWN if quoted and name != "@" else OPEN
        return self._parted(value if name in {"@", "*"} else value.partition(SPLIT)[0], scope, quoted)

    def _parted(self, value: str, scope: Scope, quoted: bool) -> str:
        """A value where it stands: between quotes it stays whole, else the shell makes words of it."""
        if quoted:
            return hidden(value)
        if "IFS" in scope.variables:
            return OPEN
        return re.sub(r"[ \t\n]+", SPLIT, value.replace(UNKNOWN, OPEN))

    def _lookup(self, name: str, scope: Scope) -> str | None:
        """The value of a variable; None if it is not known. It may have marks of unknown parts."""
        if name in scope.variables:
            return scope.variables[name]
        if name == "PWD":
            return scope.cwds[0] if len(scope.cwds) == 1 else None
        if name in self._usual or scope.positional is None:
            return self._usual.get(name)
        if name in {"@", "*"}:
            return SPLIT.join(scope.positional)
        if name.isdigit() and name != "0":
            return "".join(scope.positional[int(name) - 1 : int(name)])
        return None

    def _parameter(self, node: Node, scope: Scope, quoted: bool) -> str:
        """`${...}`."""
        operands: list[Node] = []
        for child in node.named_children:
            if child.type == "subscript":
                self._nested(child, scope)
            elif child.type not in {"variable_name", "special_variable_name"}:
                operands.append(child)
        operand = ""
        if operands:
            start, end = operands[0].start_byte, operands[-1].end_byte
            operand = self._pieces(operands, start, end, scope, _PATTERN, quoted=quoted)
        found = _PARAMETER.fullmatch(self._raw(node))
        if found is None:
            raise UnreadableError("an expansion is not understood")
        prefix, name, index, operator, rest = found.groups()
        if operator == "@" and rest != "Q":
            raise UnreadableError("an expansion may run a command")
        if rest and ((_SUBSTITUTION.search(rest) and not operands) or (quoted and "'" in rest and operator != ":?")):
            raise UnreadableError("an expansion is not understood")
        if prefix == "#":
            return PLAIN
        if index is not None:
            return self._element(name, index, operator, scope, quoted)
        if prefix == "!":
            name = self._lookup(name, scope) or name
            if "[" in name:
                raise UnreadableError("an expansion may run a command")
            return self._value(name, scope, quoted)
        if operator is None:
            return self._value(name, scope, quoted)
        if operator[-1] in "-=+?":
            return self._default(name, operator, operand, scope, quoted)
        value = self._lookup(name, scope)
        new = None if value is None or unknown(value + operand) else edited(value, operator, shown(operand), rest)
        if new is not None:
            return self._parted(new, scope, quoted)
        self._inside += scope.sources.get(name, ())
        self._unknown.append(name)
        return UNKNOWN if quoted else OPEN

    def _default(self, name: str, operator: str, operand: str, scope: Scope, quoted: bool) -> str:
        """`${name:-operand}` and its like."""
        value = self._lookup(name, scope)
        kind = operator[-1]
        if value is None and kind == "?":
            return DEFENDED
        if value is None:
            self._unknown.append(name)
            if kind == "=":
                scope.variables[name] = UNKNOWN
            return UNKNOWN if quoted else OPEN
        is_set = bool(value) or operator[0] != ":"
        if kind == "+":
            return operand if is_set else ""
        if is_set or kind == "?":
            return self._value(name, scope, quoted)
        if kind == "=":
            scope.variables[name] = shown(operand)
        return operand

    def _element(self, name: str, index: str, operator: str | None, scope: Scope, quoted: bool) -> str:
        """`${name[index]}`."""
        items = (self._lookup(name, scope) or UNKNOWN).split(SPLIT)
        self._inside += scope.sources.get(name, ())
        if name not in scope.variables or operator is not None:
            self._unknown.append(name)
        elif index in {"[@]", "[*]"}:
            return SPLIT.join(hidden(item) + QUOTED for item in items if scope.variables[name])
        elif re.fullmatch(r"\[-?\d{1,4}\]", index) and -len(items) <= int(index[1:-1]) < len(items):
            return hidden(items[int(index[1:-1])])
        return UNKNOWN if quoted and index != "[@]" else OPEN

    # Substitutions.

    def _substitution(self, node: Node, scope: Scope, quoted: bool) -> str:
        raw = self._raw(node)
        if raw.startswith("`") and "\\" in raw:
            text = re.sub(r'\\([`$\\"])' if quoted else r"\\([`$\\])", r"\1", raw[1:-1])
            output = self._output_of(lambda inner: self.read(text, inner), scope)
        else:
            output = self._output_of(lambda inner: self._statements(node.children, inner), scope)
        return self._parted(output, scope, quoted)

    def _number(self, node: Node, scope: Scope, _quoted: bool) -> str:
        self._arithmetic(node, scope)
        return PLAIN

    def _items(self, node: Node, scope: Scope, _quoted: bool) -> str:
        self._nested(node, scope)
        return UNKNOWN

    def _process(self, node: Node, scope: Scope, _quoted: bool) -> str:
        self._output_of(lambda inner: self._statements(node.children, inner), scope)
        return "/dev/fd/63"

    def _output_of(self, run: Callable[[Scope], None], scope: Scope) -> str:
        """The output of what runs in a subshell, with marks. Its commands are inside the word that is read."""
        inner = scope.copy()
        before, inside, names = len(self.reading.commands), self._inside, self._unknown
        try:
            self._enter()
            run(inner)
        finally:
            self._depth -= 1
        made = self.reading.commands[before:]
        self._inside, self._unknown = [*inside, *made], names
        output = self.output(made, inner)
        return UNKNOWN if output is None else output

    def _cat(self, node: Node, scope: Scope) -> None:
        """`$(< file)`."""
        more: list[Node] = []
        redirect = self._redirect(node, scope, more)
        if more or redirect.operator != "<":
            raise UnreadableError("a substitution is not understood")
        self._add(Command([Word("cat"), redirect.target], "cat", scope.cwds, via=scope.via), scope)

    def output(self, commands: Sequence[Command], scope: Scope) -> str | None:
        """The text that commands print, as far as it is known; None if it is not."""
        commands = [one for one in commands if one.name not in _SILENT]
        if len(commands) != 1 or any(
            one.operator[0] in ">&" and one.descriptor != "2" for one in commands[0].redirects
        ):
            return None
        (command,) = commands
        name, texts = command.name, [word.text for word in command.words[1:]]
        if name == "echo":
            while texts and texts[0] in {"-n", "-e", "-E", "-ne", "-en"}:
                if "e" in texts.pop(0):
                    texts = [ansi(text) for text in texts]
            return " ".join(texts)
        if name == "printf" and texts:
            return printed(texts[0], texts[1:])
        if name == "cat" and command.feed and set(texts) <= {"-"}:
            return None if command.feed.text is None else command.feed.text.rstrip("\n")
        if name == "pwd":
            return scope.cwds[0] if len(scope.cwds) == 1 else None
        if name == "mktemp" and not any(text.startswith("/") for text in texts):
            return "/tmp/tmp.picohook"
        if [name, *texts[:2]] == ["git", "rev-parse", "--show-toplevel"]:
            return self.root
        return PLAIN if name in _PLAIN_OUTPUT or "-".join([name, *texts[:1]]) in _PLAIN_OUTPUT else None


def _literal(text: str, leaf: re.Pattern[str]) -> str:
    """A leaf's text without its quoting. Raises `UnreadableError` if the shell would find more in it than text."""
    out: list[str] = []
    end = 0
    for found in leaf.finditer(text):
        newline, escaped, special, plain = found.groups()
        if special is not None or found.start() != end:
            raise UnreadableError("a part of it is not read")
        end = found.end()
        if newline is None:
            out.append(hidden(escaped or plain) if escaped or leaf is _DOUBLE else plain)
    if end != len(text):
        raise UnreadableError("it ends in a backslash")
    return "".join(out)


def _quoted(word: Word) -> str:
    return '"$PICOHOOK_UNKNOWN"' if unknown(word.text) else shlex.quote(word.text)


_NOTHING = parse("")
_TEXTS: dict[str, Callable[[Reader, Node, Scope, bool], str]] = {
    **dict.fromkeys(("word", "number", "variable_name", "test_operator"), Reader._leaf),
    **dict.fromkeys(("special_variable_name", "file_descriptor", "string_content"), Reader._leaf),
    **dict.fromkeys(("extglob_pattern", "regex"), Reader._pattern),
    **dict.fromkeys(("raw_string", "ansi_c_string"), Reader._single),
    "string": Reader._string,
    "translated_string": lambda reader, node, scope, quoted: reader._text(node.children[-1], scope, quoted=quoted),
    "concatenation": Reader._concatenation,
    "simple_expansion": Reader._simple,
    "expansion": Reader._parameter,
    "command_substitution": Reader._substitution,
    "process_substitution": Reader._process,
    "arithmetic_expansion": Reader._number,
    "brace_expression": lambda reader, node, _scope, _quoted: reader._raw(node),
    "array": Reader._items,
    "subscript": Reader._items,
}
_RUNS: dict[str, Callable[[Reader, Node, Scope], None]] = {
    **dict.fromkeys(_TEXTS, Reader._in_case),
    "comment": Reader._comment,
    "redirected_statement": Reader._redirected_statement,
    "file_redirect": Reader._cat,
    "list": Reader._list,
    "pipeline": Reader._pipeline,
    "subshell": Reader._subshell,
    "compound_statement": Reader._compound,
    "negated_command": Reader._negated,
    "if_statement": Reader._branches,
    "while_statement": Reader._branches,
    "for_statement": Reader._for,
    "c_style_for_statement": Reader._c_for,
    "case_statement": Reader._branches,
    "function_definition": Reader._function,
    "test_command": Reader._test,
    "declaration_command": Reader._declaration,
    "unset_command": Reader._declaration,
    "variable_assignment": Reader._assignments,
    "variable_assignments": Reader._assignments,
}
