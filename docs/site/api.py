"""Writes what the code says of each public name into `docs/reference/`: `make reference`.

A page has a mark for each name, `<!-- made: NAME -->`, after which stand its signature, its docstring and its members. After a second
colon the mark lists the members to show. Without it, these are the public members of the class and of its bases that are not public.
An error that a function raises and its docstring does not name is added. What is before and between the entries is written by hand.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import TYPE_CHECKING

import picohook

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = tuple(ROOT / "docs/reference" / name for name in ("api.md",))
MARK = re.compile(r"<!-- made: ([\w.]+)(?:: ([^>]*))? -->\n.*?<!-- made until here -->\n", re.DOTALL)
INDEX = re.compile(r"<!-- made: all names -->\n.*?<!-- made until here -->\n", re.DOTALL)
WIDTH, CODE_WIDTH = 138, 84
FACTORIES = {"dict": "{}", "list": "[]", "tuple": "()", "frozenset": "frozenset()"}
SHOWN_BASES = {"Exception", "TypedDict", "NamedTuple", "Protocol", "StrEnum"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Found:
    """A definition in the source, and the module that has it."""

    node: ast.stmt
    module: str
    after: str = ""
    """The text below an assignment, which describes it."""


@dataclass
class Entry:
    """What a page says of one name."""

    name: str
    stub: str
    text: list[str]
    members: dict[str, str] = field(default_factory=dict)


@cache
def tree(module: str) -> ast.Module:
    """Returns the parsed source of a module."""
    path = ROOT / module.replace(".", "/")
    files = (path / "__init__.py", path.with_suffix(".py"), path.with_suffix(".pyi"))
    return ast.parse(next(file for file in files if file.exists()).read_text(encoding="utf-8"))


def find(name: str, module: str) -> Found | None:
    """Returns the definition of a name, in this module or where this module has it from. None if it is another package's."""
    body = tree(module).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            return Found(node, module)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return Found(node, module, text_in(after))
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
            package = module if (ROOT / module.replace(".", "/") / "__init__.py").exists() else module.rpartition(".")[0]
            home = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
            return find(name, home) if home.startswith("picohook") else None
    return None


def text_in(node: ast.stmt | None) -> str:
    """Returns the text of a docstring below an assignment."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return inspect.cleandoc(node.value.value)
    return ""


def public(name: str) -> Found:
    """Returns the definition of a public name: of `picohook`, or with its module, such as `testing.FakeHook`."""
    home, _, last = name.rpartition(".")
    found = find(last, f"picohook.{home or picohook._HOME[name]}")
    if found is None:
        raise LookupError(f"there is no {name}")
    return found


def lineage(found: Found) -> list[Found]:
    """Returns a class, and the bases from which it has members of its own: those that are no public names themselves."""
    assert isinstance(found.node, ast.ClassDef)
    line = [found]
    for base in found.node.bases:
        name = ast.unparse(base).partition("[")[0]
        inherited = find(name, found.module) if name.isidentifier() else None
        if inherited and name not in {*picohook.__all__, "DeferredModel"} and isinstance(inherited.node, ast.ClassDef):
            line += lineage(inherited)
    return line


def whole_lineage(found: Found) -> list[Found]:
    """Returns a class, and all its bases in picohook."""
    assert isinstance(found.node, ast.ClassDef)
    bases = (find(ast.unparse(base).partition("[")[0], found.module) for base in found.node.bases)
    return [found, *(one for base in bases if base and isinstance(base.node, ast.ClassDef) for one in whole_lineage(base))]


@dataclass(frozen=True)
class Member:
    """A member of a class: its line in the stub, and its text."""

    stub: str
    text: str
    quiet: bool = False
    """Whether it is shown only where a mark names it: an attribute without a text."""


def with_values(node: ast.expr, module: str) -> str:
    """Returns an expression as text; a constant that is a number stands as that number."""
    value = find(node.id, module) if isinstance(node, ast.Name) else None
    if value and isinstance(value.node, ast.Assign) and isinstance(value.node.value, ast.Constant):
        return ast.unparse(value.node.value)
    return ast.unparse(node)


def members_of(found: Found) -> dict[str, Member]:
    """Returns the members that a class defines itself."""
    assert isinstance(found.node, ast.ClassDef)
    made: dict[str, Member] = {}
    body = found.node.body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "ClassVar" not in ast.unparse(node.annotation):
            made[node.target.id] = attribute(node, after, found.module)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, text = node.targets[0].id, text_in(after)
            made[name] = Member(f"{name} = {ast.unparse(node.value)}", text, quiet=not (text or name.isupper()))
        elif isinstance(node, Function) and not any("overload" in ast.unparse(one) for one in node.decorator_list):
            if node.name == "__init__":
                made |= dict(instance_attributes(node))
            made[node.name] = method(node, found.module)
    return made


def attribute(node: ast.AnnAssign, after: ast.stmt | None, module: str) -> Member:
    """Returns a field of a class."""
    assert isinstance(node.target, ast.Name)
    default, text = "", text_in(after)
    if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in {"field", "Field"}:
        given = {keyword.arg: keyword.value for keyword in node.value.keywords}
        if "default" in given:
            default = with_values(given["default"], module)
        elif "default_factory" in given:
            default = FACTORIES.get(ast.unparse(given["default_factory"]), "...")
        elif node.value.args:
            default = ast.unparse(node.value.args[0])
        if "description" in given:
            text = text or str(ast.literal_eval(given["description"]))
    elif node.value is not None:
        default = with_values(node.value, module)
    kind = ast.unparse(plain(node.annotation))
    return Member(f"{node.target.id}: {kind}" + (f" = {default}" if default else ""), text)


def plain(annotation: ast.expr) -> ast.expr:
    """Returns a type without what pydantic checks beyond it."""

    class Plain(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
            self.generic_visit(node)
            if ast.unparse(node.value) in {"Annotated", "FailFastList"} and isinstance(node.slice, ast.Tuple):
                return node.slice.elts[0]
            return node

    return Plain().visit(annotation)


def instance_attributes(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, Member]]:
    """Yields the attributes that a constructor sets."""
    kinds = {one.arg: one.annotation for one in [*node.args.args, *node.args.kwonlyargs]}
    for one, after in zip(node.body, [*node.body[1:], None], strict=True):
        target = one.target if isinstance(one, ast.AnnAssign) else one.targets[0] if isinstance(one, ast.Assign) else None
        if isinstance(target, ast.Attribute):
            kind = one.annotation if isinstance(one, ast.AnnAssign) else kinds.get(getattr(one.value, "id", ""))
            stub = f"{target.attr}: {ast.unparse(kind)}" if kind else target.attr
            yield target.attr, Member(stub, text_in(after), quiet=not text_in(after))


def method(node: ast.FunctionDef | ast.AsyncFunctionDef, module: str) -> Member:
    """Returns a method; a property is shown as an attribute."""
    decorators = [ast.unparse(one) for one in node.decorator_list]
    text = "\n".join(described(node))
    if any(one.endswith("property") for one in decorators):
        return Member(f"{node.name}: {ast.unparse(node.returns)}" if node.returns else node.name, text)
    kept = "".join(f"@{one}\n" for one in decorators if one in {"classmethod", "staticmethod"})
    return Member(kept + signature(node, module), text)


def unquoted(kind: ast.expr) -> ast.expr:
    """Returns a type that is in quotes because its class is defined later, without the quotes."""
    return ast.parse(kind.value, mode="eval").body if isinstance(kind, ast.Constant) and isinstance(kind.value, str) else kind


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, module: str) -> str:
    """Returns the signature of a function, without the parameters that are not for others."""
    arguments = copy.deepcopy(node.args)
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    kept = [(argument, default) for argument, default in pairs if not argument.arg.startswith("_")]
    known = [ast.Name(with_values(default, module)) if default else None for _, default in kept]
    positional = arguments.posonlyargs or arguments.args
    if positional and positional[0].arg in {"self", "cls"}:
        del positional[0]
    arguments.kwonlyargs, arguments.kw_defaults = [one for one, _ in kept], known
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg) and argument.annotation:
            argument.annotation = unquoted(argument.annotation)
    returns = f" -> {ast.unparse(unquoted(node.returns))}" if node.returns else ""
    start = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{start} {node.name}({ast.unparse(arguments)}){returns}: ..."


def described(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[str]:
    """Returns the paragraphs of a docstring, with the errors that it does not name."""
    text = without_examples(ast.get_docstring(node) or "")
    paragraphs = [" ".join(paragraph.split("\n")) for paragraph in text.split("\n\n") if paragraph.strip()]
    if isinstance(node, Function) and paragraphs:
        unnamed = [one for one in raised(node.body) if one not in text]
        paragraphs += [f"Raises {' or '.join(f'`{one}`' for one in unnamed)}."] if unnamed else []
    return [re.sub(r"\b(Raises?)\b", r"**\1**", paragraph) for paragraph in paragraphs]


def without_examples(text: str) -> str:
    """Returns a docstring without its examples, which pages have of their own."""
    kept, inside = [], False
    for line in text.split("\n"):
        inside = (inside and (line.startswith(" ") or not line)) or line.rstrip().endswith("::")
        if not inside:
            kept.append(line)
        elif line.strip() not in {"", "::"} and line.rstrip().endswith("::"):
            kept.append(line.rstrip()[:-1])
    return "\n".join(kept)


def raised(body: Iterable[ast.stmt]) -> list[str]:
    """Returns the names of picohook's errors that these statements raise, without those of functions in them."""
    names: dict[str, None] = {}
    for node in body:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func)
            names |= {name: None} if name in picohook.__all__ or name in {"ValueError", "TypeError"} else {}
        if not isinstance(node, Function | ast.ClassDef):
            inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)]
            names |= dict.fromkeys(raised(inner))
    return list(names)


def entry(name: str, shown: str | None) -> Entry:
    """Returns the entry of a public name, with the members that a mark names."""
    found = public(name)
    last = name.rpartition(".")[2]
    if isinstance(found.node, Function):
        return Entry(name, signature(found.node, found.module), described(found.node))
    if not isinstance(found.node, ast.ClassDef):
        value = found.node.value
        text = value.value if isinstance(value, ast.Constant) else ast.unparse(value)
        return Entry(name, f"{last} = {text}", [" ".join(found.after.split("\n"))] if found.after else [])
    return of_class(last, found, shown)


def of_class(name: str, found: Found, shown: str | None) -> Entry:
    """Returns the entry of a class."""
    assert isinstance(found.node, ast.ClassDef)
    everything: dict[str, Member] = {}
    for one in reversed(whole_lineage(found)):
        for key, member in members_of(one).items():
            inherited = everything.get(key, member)
            everything[key] = member if member.text else replace(member, text=inherited.text)
    own = {key for one in lineage(found) for key, member in members_of(one).items() if not member.quiet}
    named = [word for word in re.split(r"[,\s]+", shown or "") if word not in {"", "-"}]
    wanted = named or [key for key in everything if key in own and key[0] != "_"]
    if shown is not None and not named:
        wanted = []
    if missing := [key for key in named if key not in everything and key != "__init__"]:
        raise LookupError(f"{name} has no {', '.join(missing)}")
    made = constructor(found, own, everything) if shown is None or "__init__" in named else ""
    lines = [made] if made else []
    taken = [] if "__init__" in own else re.findall(r"(\w+):", made)
    lines += [everything[key].stub for key in wanted if key != "__init__" and key not in taken]
    bases = [text for text in map(ast.unparse, found.node.bases) if text.partition("[")[0] in {*picohook.__all__, *SHOWN_BASES}]
    head = f"class {name}({', '.join(bases)}):" if bases else f"class {name}:"
    text = described(found.node)
    init = everything.get("__init__")
    if init and "__init__" in own:
        text += init.text.split("\n") if init.text else []
        text += [f"**Raises** {' or '.join(f'`{one}`' for one in errors)}."] if (errors := unnamed_errors(found, " ".join(text))) else []
    body = textwrap.indent("\n".join(lines) or "...", "    ")
    return Entry(name, f"{head}\n{body}", text, {key: everything[key].text for key in wanted if key in everything and everything[key].text})


def unnamed_errors(found: Found, text: str) -> list[str]:
    """Returns the errors that the constructor of a class raises, and that its texts do not name."""
    for one in lineage(found):
        for node in one.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                return [error for error in raised(node.body) if error not in text]
    return []


def constructor(found: Found, own: set[str], everything: dict[str, Member]) -> str:
    """Returns how an object is made: as its constructor says, or a data class; empty if its fields say it."""
    if "__init__" in own:
        return everything["__init__"].stub
    assert isinstance(found.node, ast.ClassDef)
    made = getattr(import_module(found.module), found.node.name)
    if not hasattr(made, "__dataclass_fields__"):
        return ""
    shown = []
    star = False
    for parameter in inspect.signature(made).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            shown.append("*")
        stub, _, default = everything[parameter.name].stub.partition(" = ")
        shown.append(stub if parameter.default is parameter.empty else f"{stub} = {default}")
    return f"def __init__({', '.join(shown)}) -> None: ..."


def formatted(stubs: list[str]) -> list[str]:
    """Returns stubs as ruff formats them."""
    between = "\n\n\n_between_ = 0\n\n\n"
    command = [sys.executable, "-m", "ruff", "format", "--isolated", f"--line-length={CODE_WIDTH}", "--stdin-filename=stubs.pyi", "-"]
    done = subprocess.run(command, input=between.join(stubs), capture_output=True, text=True, check=True)
    return [stub.strip() for stub in done.stdout.split("_between_ = 0")]


def linked(text: str, name: str, names: dict[str, str]) -> str:
    """Returns a text in which each name with an entry leads there."""
    return re.sub(r"`(\w+)`", lambda word: f"[{word[0]}](#{names[word[1]]})" if word[1] in names and word[1] != name else word[0], text)


def rendered(made: Entry, stub: str, names: dict[str, str]) -> str:
    """Returns an entry as a page has it."""
    parts = [f"```pyi\n{stub}\n```"]
    parts += [textwrap.fill(linked(text, made.name, names), WIDTH, break_long_words=False, break_on_hyphens=False) for text in made.text]
    listed = []
    for key, text in made.members.items():
        said = linked(" ".join(text.split("\n")), made.name, names)
        listed.append(textwrap.fill(f"- `{key}`: {said}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    return "\n\n".join([*parts, *(["\n".join(listed)] if listed else [])])


def whole(page: str) -> str:
    """Returns a page with all its entries."""
    marks = list(MARK.finditer(page))
    entries = [entry(mark[1], mark[2]) for mark in marks]
    stubs = iter(formatted([made.stub for made in entries]))
    names = {mark[1].rpartition(".")[2]: mark[1].rpartition(".")[2].lower() for mark in marks}
    made = iter(entries)

    def replaced(mark: re.Match[str]) -> str:
        shown = f": {mark[2]}" if mark[2] else ""
        return f"<!-- made: {mark[1]}{shown} -->\n\n{rendered(next(made), next(stubs), names)}\n\n<!-- made until here -->\n"

    return INDEX.sub(f"<!-- made: all names -->\n\n{index(page)}\n\n<!-- made until here -->\n", MARK.sub(replaced, page))


def index(page: str) -> str:
    """Returns all names of a page, by its sections."""
    rows = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        named = [mark[1].rpartition(".")[2] for mark in MARK.finditer(section)]
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        links = ", ".join(f"[`{name}`](#{name.lower()})" for name in named)
        rows += [f"- [{title}](#{anchor}): {links}"] if named else []
    return "\n".join(rows)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(whole(path.read_text(encoding="utf-8")), encoding="utf-8")
