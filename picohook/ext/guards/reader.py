"""Reads shell text: which commands run, with which words, where, and fed by what.

It walks the tree once. Each node is checked against the text, because a tree without errors can lack a command that bash runs.
What a check refuses is a doubt, and the walk continues with the next statement.
"""

import itertools
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from .expansion import Expander, Scope
from .memory import CallFiles
from .names import listed
from .reading import Command, Feed, Reading, Redirect
from .syntax import Node, TooMuchError, UnreadableError, parse
from .words import OPEN, PLAIN, UNKNOWN, Word, ansi, joined, printed, unknown

DEEPEST = 60
"""How deep statements and substitutions may be in each other."""
MOST_STEPS = 5_000
"""Statements and commands of a call, each as often as it is read: a loop's body once a value."""
TIME_FOR_CALL = 0.25
"""Seconds of the processor for one call, as a backstop."""
MOST_VALUES = 12
"""Values of a loop's variable that are tried."""
_GAP = re.compile(rb"(?:[ \t]|\\\n)*[ \t](?:[ \t]|\\\n)*")
_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*")
_SAFE = re.compile(r"[\w./:=@%+,~^!*?\[\]{}#-]+")
_NAMED_DESCRIPTOR = re.compile(rb"(?<!\$)\{\w+\}$")
_PLAIN_OUTPUT = listed("plain-output")
_ENDS = re.compile(r"(?:^|[;\n&|({])\s*(?:exit|return|die|break|continue|fail|abort)\b[^;\n&|]*$")
_SILENT = frozenset(("cd", "true", "set", "export", ":", "mkdir", "touch", "sleep", "unset"))
"""Commands that print nothing."""
_NAME_VARIABLES = listed("name-variables")
"""Commands that take names of variables, in whose indexes a shell runs substitutions."""
_BRANCHES = frozenset(("then", "elif_clause", "else_clause", "case_item", "do_group"))
_LAST = frozenset(("list", "pipeline", "negated_command"))
"""The tree gives the redirections after these to all of it, the shell to the last command."""
_COMMANDS = frozenset(("command", "declaration_command", "unset_command"))


class Reader(Expander):
    """Reads the texts of one call into one reading."""

    def __init__(self, reading: Reading, files: CallFiles, started: Callable[["Reader", Command, Scope], None]) -> None:
        """`started` is called for each command, in the order in which they are read."""
        self.root: str = files.places.project
        super().__init__(files.places.home, self.root)
        self.reading, self.files = reading, files
        self._started = started
        self._depth = self._steps = 0
        self._end = time.thread_time() + TIME_FOR_CALL
        self._calling: list[str] = []
        self._late: dict[int, tuple[list[Redirect], list[Node]]] = {}
        """Redirections that the tree has around a command, and words of it after them, by its node."""

    # Texts.

    def read(self, text: str, scope: Scope) -> None:
        """Read a text in this scope, which it may change. Doubts are noted."""
        if not text.strip():
            return
        outer = self._source
        try:
            self._source = source = parse(text)
            data, root = source.data, source.root
            if not (_BLANK.fullmatch(data, 0, root.start_byte) and _BLANK.fullmatch(data, root.end_byte)):
                raise UnreadableError("its syntax is not understood")
            self._statements(root.children, scope)
        except UnreadableError as error:
            self.reading.doubt(f"The text cannot be read: {error}.")
        finally:
            self._source = outer

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
        for node, after in itertools.zip_longest(self._apart(nodes), nodes[1:]):
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
            if node.type in _COMMANDS:
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
        self._step()
        if time.thread_time() > self._end:
            raise TooMuchError("it takes too long")
        if self._depth > DEEPEST:
            raise UnreadableError("its parts are too deep in each other")

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise TooMuchError("it runs too many commands")

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
        if sign.type == "<<<":
            return Redirect("<<<", descriptor, joined(made))
        several = Word(OPEN, variables=tuple(name for word in made for name in word.variables))
        return Redirect(sign.type, descriptor, made[0] if len(made) == 1 else several)

    def _fed(self, redirects: Iterable[Redirect], feed: Feed | None) -> Feed | None:
        for operator, descriptor, target in redirects:
            if operator == "<<<":
                feed = Feed(list(target.inside), target.text if target.known else None)
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
            elif not (child.is_named or kind in {"=~", "==", "="} or node.type != "command"):
                raise UnreadableError("its words cannot be told apart")
            elif kind == "variable_assignment" and node.type == "command":
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
        if name in _NAME_VARIABLES or first in scope.functions:
            self._require_plain(word.text for word in words)
        feed = self._fed(redirects, scope.feed)
        command = Command(words, name, scope.cwds, redirects, assigned, feed, scope.via)
        if first in scope.functions and "/" not in first:
            self._call(command, scope)
        else:
            self._add(command, scope)

    def _add(self, command: Command, scope: Scope) -> None:
        self._step()
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

    def _compound(self, node: Node, scope: Scope) -> None:
        if node.children[0].type == "((":
            self._arithmetic(node, scope)
        else:
            self._statements(node.children, scope)

    def _branches(self, node: Node, scope: Scope) -> None:
        """`if`, `while`, `case`, `for ((`: what comes first runs or counts, then one of the branches runs."""
        if node.type == "c_style_for_statement":
            self._arithmetic(node, scope)
        elif node.type == "case_statement":
            end = next(child.start_byte for child in node.children if child.type == "in")
            self._scanned(node, end, scope, "operand")
        else:
            first = itertools.takewhile(lambda child: child.type not in _BRANCHES, node.children)
            self._statements([*first], scope)
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
            statements = children[start:end] if head.type == "then" else head.children
            if head.type == "case_item":
                at = next(at for at, child in enumerate(statements) if child.type == ")")
                self._scanned(head, statements[at].start_byte, branch, "operand")
                statements = statements[at + 1 :]
            self._statements(statements, branch)
            branches.append(branch)
        if children[starts[-1]].type != "else_clause":
            branches.append(scope.copy())
        scope.merge(*branches)

    def _for(self, node: Node, scope: Scope) -> None:
        values = [Word(OPEN)] if scope.positional is None else [Word(value) for value in scope.positional]
        children = [*self._apart(node.children)]
        name = self._raw(children[1])
        if children[2].type == "in":
            values = self._words_of(
                [child for child in children[3:] if child.is_named and child.type != "do_group"], scope
            )
        inside = tuple(command for word in values for command in word.inside)
        texts = list(dict.fromkeys(word.text.replace(OPEN, UNKNOWN) for word in values)) or [""]
        if len(texts) > MOST_VALUES:
            texts[MOST_VALUES:] = [UNKNOWN]
        for text in texts:
            self.assign(name, text, scope)
            scope.sources[name] = inside
            self._one_of(node, scope)

    def _function(self, node: Node, scope: Scope) -> None:
        body = node.children[-1]
        if body.type.endswith("redirect"):
            raise UnreadableError("a function has redirections")
        scope.functions[self._raw(node.named_children[0])] = self._source, body

    def _assignments(self, node: Node, scope: Scope) -> None:
        for child in node.named_children if node.type == "variable_assignments" else [node]:
            self.assign(*self._assignment(child, scope), scope)

    # Substitutions.

    def _output_of(self, what: Node | str, scope: Scope) -> str:
        """The output of what runs in a subshell, with marks. Its commands are inside the word that is read."""
        inner = scope.copy()
        before, inside, names = len(self.reading.commands), self._inside, self._unknown
        try:
            self._enter()
            if isinstance(what, str):
                self.read(what, inner)
            else:
                self._statements(what.children, inner)
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
        name, texts = command.name, [str(word.text) for word in command.words[1:]]
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
        if name == "which" or [name, *texts[:1]] == ["command", "-v"]:
            return texts[-1] if texts else None
        if name == "mktemp" and not any(text.startswith("/") for text in texts):
            return "/tmp/tmp.picohook"
        if [name, *texts[:2]] == ["git", "rev-parse", "--show-toplevel"]:
            return self.root
        return PLAIN if name in _PLAIN_OUTPUT or "-".join([name, *texts[:1]]) in _PLAIN_OUTPUT else None


def _quoted(word: Word) -> str:
    return '"$PICOHOOK_UNKNOWN"' if unknown(word.text) else shlex.quote(word.text)


_RUNS: dict[str, Callable[[Reader, Node, Scope], object]] = {
    "comment": Reader._comment,
    "redirected_statement": Reader._redirected_statement,
    "file_redirect": Reader._cat,
    "list": Reader._list,
    "pipeline": Reader._pipeline,
    "subshell": lambda reader, node, scope: reader._statements(node.children, scope.copy()),
    "compound_statement": Reader._compound,
    "negated_command": lambda reader, node, scope: reader._run([*reader._apart(node.children, _GAP)][-1], scope),
    **dict.fromkeys(("if_statement", "while_statement", "c_style_for_statement", "case_statement"), Reader._branches),
    "for_statement": Reader._for,
    "function_definition": Reader._function,
    "test_command": lambda reader, node, scope: reader._scanned(node, node.end_byte, scope, "operand"),
    **dict.fromkeys(("variable_assignment", "variable_assignments"), Reader._assignments),
}
