"""The error where a framework is not installed."""

from __future__ import annotations

import subprocess
import sys

import preloaded
import pytest

# A finder of no modules of a framework stands for an environment without it.
WITHOUT = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[2]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nothing())
try:
    __import__("picohook.integrations." + sys.argv[1])
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "framework"),
    [
        ("agent_hooks", "agent_hooks"),
        ("claude_agent", "claude_agent_sdk"),
        ("google_adk", "google"),
        ("langchain", "langchain_core"),
        ("openai_agents", "agents"),
        ("pydantic_ai", "pydantic_ai"),
    ],
)
def test_a_missing_framework_is_named_with_its_extra(module, framework):
    command = [preloaded.program("python"), "-c", WITHOUT, module, framework]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)

    assert done.stdout.startswith(f"picohook.integrations.{module} needs {framework}: {sys.executable} -m pip install ")
    assert module.replace("_", "-") in done.stdout.split()[-1]  # the package, which no other can be registered as
