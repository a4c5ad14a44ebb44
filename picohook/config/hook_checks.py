"""Checks on the table of one hook that its types cannot make."""

from collections.abc import Mapping
from typing import Any, get_args

from ..extensions import every
from ..model.spec import KINDS, OF_SESSION, StageName
from ..wire import words
from ..wire.text import escape
from .problems import KeyPath, Problems, meant, quoted

STAGES: tuple[StageName, ...] = get_args(StageName)
EVENTS = frozenset(words.EVENT_KINDS) | frozenset(words.RUNTIME_KINDS) | words.EVERY_KIND

_NOTHING: tuple[Any, ...] = (None, [], "")

# With these, a loader or an interpreter runs other code before the hook's own first line.
_LOADERS = frozenset(
    """
    PATH IFS ENV BASH_ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND ZDOTDIR GCONV_PATH LOCPATH OPENSSL_CONF OPENSSL_MODULES
    PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONBREAKPOINT PYTHONWARNINGS PYTHONPLATLIBDIR
    PYTHONEXECUTABLE PYTHONPYCACHEPREFIX NODE_OPTIONS NODE_PATH PERL5LIB PERLLIB PERL5OPT PERL5DB
    RUBYOPT RUBYLIB GEM_HOME GEM_PATH BUNDLE_GEMFILE LUA_INIT LUA_PATH LUA_CPATH PHPRC PHP_INI_SCAN_DIR R_PROFILE
    CLASSPATH JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS DOTNET_STARTUP_HOOKS CORECLR_PROFILER_PATH ERL_FLAGS
    """.split()  # noqa: SIM905 - fifty lines otherwise
)
_LOADER_PREFIXES = ("LD_", "DYLD_", "BASH_FUNC_", "LUA_INIT_", "LUA_PATH_", "LUA_CPATH_")


def check_hook(
    name: str, table: Mapping[str, Any], problems: Problems, at: KeyPath, *, found: bool, also: tuple[str, ...] = ()
) -> None:
    """Check that a hook's name can be shown, that each event kind exists or begins with one of `also`, and its environment."""
    if not name.strip() or escape(name) != name:
        problems.add(at, f"{quoted(name)} cannot be a hook's name", "give it one that can be read and shown")
    elif name.endswith(OF_SESSION):
        problems.add(at, f"only the names of a session's own hooks end in {OF_SESSION}", "give it another name")
    kinds = table.get("observe")
    for index, kind in enumerate(kinds if isinstance(kinds, list) else ()):
        if isinstance(kind, str) and kind not in EVENTS and not kind.startswith(also):
            known = words.RUNTIME_KINDS if "." in kind else words.EVENT_KINDS
            hint = "it is a stage: name it in stages" if kind in STAGES else meant(kind, known)
            problems.add((*at, "observe", index), f"{quoted(kind)} is not an event kind", hint)
    check_env(table.get("env"), problems, (*at, "env"), found=found)
    if "\0" in str(table.get("dir")):
        problems.add((*at, "dir"), "holds a NUL character")


def check_given(
    table: Mapping[str, Any],
    problems: Problems,
    at: KeyPath,
    *,
    stages: str = "stages",
    known: tuple[str, ...] = STAGES,
    kinds: tuple[str, ...] = ("command",),
) -> None:
    """Check that a hook has something to run, by one of these keys, and a stage or an event kind to run it for."""
    if table.get("command") in _NOTHING and all(table.get(kind) is None for kind in kinds[1:]):
        lacks = "no command" if kinds == ("command",) else f"none of {', '.join((*KINDS, *every('kinds')))}"
        problems.add(at, f"has {lacks}", 'such as command = ["python3", "hook.py"]')
    if table.get("observe") in _NOTHING and table.get(stages) in _NOTHING:
        problems.add(at, f"is never asked and never told: it has neither {stages} nor observe", meant(None, known))


def check_env(env: Any, problems: Problems, at: KeyPath, *, found: bool) -> None:
    """Check that the names are valid. A configuration that was found may set none that decides what code a program loads."""
    for name, value in env.items() if isinstance(env, dict) else ():
        if not name or "=" in name or "\0" in f"{name}{value}":
            problems.add((*at, name), "cannot be in an environment: an empty name, a = in it, or a NUL character")
        elif found and (name in _LOADERS or name.startswith(_LOADER_PREFIXES)):
            problems.add(
                (*at, name),
                "cannot be set by a configuration that was found: it decides what code a program loads",
                "name the configuration: --config FILE",
            )
