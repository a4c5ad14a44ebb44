"""Writes the first hook of each language where it stands besides its template, on a page and as an example: `make examples`."""

from __future__ import annotations

import re
from pathlib import Path

from picohook.cli.commands.new import _DECIDED, _READ_ONLY, _TEMPLATES, _listed, contents, render

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    "python/sdk_hook.py": ("python-sdk", "python/hook.py.in", "python3 sdk_hook.py"),
    "node/hook.mjs": ("node", "node/hook.mjs.in", "node hook.mjs"),
    "typescript/hook.mts": ("typescript", "typescript/hook.mts.in", ""),
    "go/hook.go": ("go", "go/hook.go.in", "go build hook.go && ./hook"),
    "rust/hook.rs": ("rust", "rust/src/main.rs.in", "rustc --edition 2021 -O hook.rs && ./hook"),
    "rust/json.rs": ("rust", "rust/src/json.rs.in", ""),
    "bash/hook.sh": ("bash", "bash/hook.sh.in", "bash hook.sh"),
}
"""The examples, each with the name of its hook, its template, and the command that runs it."""
PAGES = [ROOT / f"docs/how-to/first-hook/{lang}.md" for lang in ("python", "node", "typescript", "go", "rust", "bash")]
_SHOWN = re.compile(r'(?<=title="guard/)([^"]+)"\n.*?(?=^```$)', re.MULTILINE | re.DOTALL)


def example(name: str, template: str, run: str) -> str:
    """Returns the larger hook of a template: a gate, a tool for the model, and a redactor."""
    what = "A review gate, a tool plugin and a redactor in one hook"
    values = {"name": name, "what": what, "read_only": _listed([*_READ_ONLY, "get_weather"]), "run": run}
    return render((_TEMPLATES / template).read_text(encoding="utf-8"), ("example", *_DECIDED), values, {"others": []})


def texts() -> dict[Path, str]:
    """Returns each example and each page as the templates make it."""
    made = {ROOT / "hooks_examples" / name: example(*of) for name, of in EXAMPLES.items()}
    for page in PAGES:
        files = contents("guard", page.stem, ["before_tool"])
        made[page] = _SHOWN.sub(lambda found, files=files: f'{found[1]}"\n{files[found[1]]}', page.read_text())
    return made


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text)
