"""Draws the pictures of the documentation into `docs/pictures`: `make pictures`. They follow the reader's light or dark colours.

Two of them are made from the code: the stages from the table of stages, and the packages from the table that the tests hold the imports to.
"""

from __future__ import annotations

import ast
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PICTURES = ROOT / "docs" / "pictures"

LIGHT = "--ink:#1f2937;--soft:#5b6472;--line:#a3acba;--paper:#fff;--blue:#dfe8fd;--green:#dcf3e3;--red:#fde3e1;--amber:#fdf0d2"
DARK = "--ink:#e5e9f0;--soft:#a7b0be;--line:#69748a;--paper:#1c2029;--blue:#26375f;--green:#1f4431;--red:#592b2b;--amber:#54431c"
RULES = """
text{font:14px system-ui,sans-serif;fill:var(--ink)}
.title{font-weight:600}
.small{font-size:12.5px;fill:var(--soft)}
.code{font:12.5px ui-monospace,monospace}
.box{stroke:var(--line);fill:var(--paper)}
.blue{fill:var(--blue)} .green{fill:var(--green)} .red{fill:var(--red)} .amber{fill:var(--amber)}
.arrow{stroke:var(--ink);stroke-width:1.5;fill:none}
.dashed{stroke-dasharray:4 4;stroke:var(--soft)}
.head{fill:var(--ink)}
"""
STYLE = f"svg{{{LIGHT}}}\n@media(prefers-color-scheme:dark){{svg{{{DARK}}}}}{RULES}"
FOR_SITE = f".picture svg{{{LIGHT}}}\n[data-md-color-scheme=slate] .picture svg{{{DARK}}}" + "".join(
    f".picture {rule}\n" for rule in RULES.replace("} .", "}\n.").strip().split("\n")
)
"""The same colours for a picture that stands in a page of the site, where the reader can switch between light and dark."""


class Picture:
    """A picture that is drawn from top to bottom."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def box(self, x: float, y: float, w: float, h: float, title: str, *lines: str, kind: str = "") -> None:
        """A box with a title, and smaller lines below it."""
        self._parts.append(f'<rect class="box {kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="8"/>')
        top = y + h / 2 + 5 - 9 * len(lines)
        self.text(x + w / 2, top, title, "title", "middle")
        for number, line in enumerate(lines, 1):
            self.text(x + w / 2, top + 18 * number, line, "small", "middle")

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """A line of text."""
        self._parts.append(f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>')

    def arrow(self, *points: tuple[float, float], kind: str = "") -> None:
        """An arrow along these points."""
        path = " L".join(f"{x} {y}" for x, y in points)
        self._parts.append(f'<path class="arrow {kind}" d="M{path}" marker-end="url(#head)"/>')

    def bar(self, x: float, y: float, w: float, h: float, kind: str = "") -> None:
        """A bar of a chart."""
        self._parts.append(f'<rect class="box {kind}" x="{x}" y="{y}" width="{w:.1f}" height="{h}" rx="2"/>')

    def __str__(self) -> str:
        head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">'
        head += '<path class="head" d="M0 0 L8 4 L0 8 z"/></marker>'
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<title>{escape(self.title)}</title>\n<style>\n{STYLE}</style>\n'
            f"<defs>{head}</defs>\n" + "\n".join(self._parts) + "\n</svg>\n"
        )


def call() -> Picture:
    """An agent, the host and its hooks around one tool call."""
    p = Picture(480, 312, "An agent asks picohook before it runs a tool, and picohook asks each hook in order, with a deadline")
    p.box(4, 95, 96, 100, "your agent", "wants to run", "rm -rf build", kind="blue")
    p.box(192, 10, 102, 280, "picohook", "asks in order", "limits time", "checks answers", "restarts, kills")
    p.arrow((100, 128), (190, 128))
    p.text(146, 118, "before_tool", "code", "middle")
    p.arrow((192, 165), (102, 165))
    p.text(146, 185, "the answer", "small", "middle")
    hooks = [
        ("guard.py", "changes the call", "green"),
        ("policy (Go)", "denies: a reason", "red"),
        ("a hung hook", "killed, never a yes", "amber"),
        ("log.sh", "told; nobody waits", ""),
    ]
    for number, (title, line, kind) in enumerate(hooks):
        y = 10 + 73 * number
        p.box(346, y, 130, 60, title, line, kind=kind)
        p.arrow((296, y + 22), (344, y + 22), kind="dashed" if number == 3 else "")
        if number < 3:
            p.arrow((346, y + 42), (298, y + 42), kind="dashed" if number == 2 else "")
    p.text(318, 307, "one line of JSON each way", "small", "middle")
    return p


ACTIONS = {"modify": "change", "respond": "answer", "deny_tool": "deny", "retry": "ask again", "pause": "pause", "skip": "skip"}


def stages() -> Picture:
    """The stages of a turn, and what a hook may do at each."""
    sys.path.insert(0, str(ROOT))
    from picohook.model.stages import STAGES

    p = Picture(480, 46 * len(STAGES) + 58, "The stages of a turn, and what a hook may do at each")
    p.text(10, 22, "stage", "title")
    p.text(166, 22, "a hook may let it pass, or", "title")
    for number, stage in enumerate(STAGES.values()):
        y = 36 + 46 * number
        p.box(4, y, 146, 34, stage.name, kind="amber" if stage.approves else "blue")
        if number:
            p.arrow((77, y - 12), (77, y - 1))
        x = 166.0
        may = ["approve", "deny"] if stage.approves else [text for name, text in ACTIONS.items() if name in stage.actions]
        for text in may:
            width = 16 + 7.6 * len(text)
            p.box(x, y + 3, width, 28, text, kind={"deny": "red", "approve": "green"}.get(text, ""))
            x += width + 6
    p.text(10, p.height - 6, "At each stage but approve_tool, it may also end the turn, or the agent.", "small")
    return p


def life() -> Picture:
    """The life of a hook's process."""
    p = Picture(480, 262, "A hook's process: starting, ready, restarting, failed")
    p.box(4, 30, 110, 60, "starting", "says hello", kind="blue")
    p.box(186, 30, 110, 60, "ready", "is asked", kind="green")
    p.box(186, 155, 110, 60, "restarting", "50 ms … 5 s", kind="amber")
    p.box(366, 155, 110, 60, "failed", "asked no more", kind="red")
    p.arrow((114, 60), (184, 60))
    p.text(149, 50, "hello", "small", "middle")
    p.arrow((241, 90), (241, 153))
    p.text(250, 126, "ends, hangs, lies", "small")
    p.arrow((186, 185), (59, 185), (59, 92))
    p.text(122, 177, "starts again", "small", "middle")
    p.arrow((296, 185), (364, 185))
    p.text(330, 177, "too often", "small", "middle")
    p.arrow((421, 155), (421, 60), (298, 60))
    p.text(360, 50, "reset", "small", "middle")
    p.text(4, 240, "A question keeps its deadline in each state.", "small")
    p.text(4, 257, "Without an answer, the hook's on_failure decides.", "small")
    return p


def layers() -> Picture:
    """The layers of configurations, and what each may do."""
    p = Picture(480, 262, "Configurations of the system, the user and the project")
    rows = [
        ("system", "/etc/picohook/*.toml", "written by root; no other layer weakens it", "asked first", "red"),
        ("user", "~/.config/picohook/picohook.toml", "yours, for every project", "asked next", "blue"),
        ("project", "picohook.toml, outermost directory first", "runs nothing until you trust its files", "asked last", "amber"),
    ]
    for number, (name, file, what, when, kind) in enumerate(rows):
        y = 6 + 88 * number
        p.box(4, y, 110, 70, name, when, kind=kind)
        p.text(130, y + 30, file, "code")
        p.text(130, y + 52, what, "small")
        if number:
            p.arrow((59, y - 17), (59, y - 2))
    return p


def roles() -> Picture:
    """A guard, an approver and an observer side by side."""
    p = Picture(480, 250, "A guard, an approver and an observer")
    columns = [
        ("guard", "red", "before_tool", ("may change,", "answer or deny"), "the call is denied", ("asked again if the", "call changed")),
        ("approver", "amber", "approve_tool", ("says yes or no", ""), "that is a no", ("sees the call", "that will run")),
        ("observer", "blue", "hook.event", ("is told, and", "decides nothing"), "nobody waits", ("lost events are", "counted")),
    ]
    for number, (name, kind, when, may, failed, more) in enumerate(columns):
        x = 4 + 161 * number
        p.box(x, 6, 150, 44, name, kind=kind)
        p.text(x + 75, 76, when, "code", "middle")
        p.text(x + 75, 104, may[0], "", "middle")
        p.text(x + 75, 124, may[1], "", "middle")
        p.text(x + 75, 156, "if it fails:", "small", "middle")
        p.text(x + 75, 177, failed, "title", "middle")
        p.text(x + 75, 212, more[0], "small", "middle")
        p.text(x + 75, 230, more[1], "small", "middle")
    return p


def packages() -> Picture:
    """The packages of the code in the order of their imports, from the table that the tests hold the imports to."""
    tree = ast.parse((ROOT / "tests/helpers/rooms.py").read_text())
    (table,) = [one.value for one in tree.body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "LAYERS"]
    rooms = ast.literal_eval(table)
    p = Picture(480, 36 * len(rooms) + 40, "The packages of picohook: each imports only packages above it")
    for number, names in enumerate(rooms):
        x = 4.0
        for name in names:
            width = 8 + 7.6 * len(name)
            p.box(x, 6 + 36 * number, width, 28, name, kind="" if names in rooms[-2:] else "blue")
            x += width + 6
    p.arrow((468, 36 * len(rooms)), (468, 10))
    p.text(4, p.height - 8, "A package imports only packages above it.", "small")
    return p


DRAWN = (call, stages, life, layers, roles, packages)


def main() -> None:
    """Draw all pictures."""
    PICTURES.mkdir(exist_ok=True)
    for draw in DRAWN:
        (PICTURES / f"{draw.__name__}.svg").write_text(str(draw()))


if __name__ == "__main__":
    main()
