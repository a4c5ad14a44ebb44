"""What a shell runs: commands in bash, in a container where each program is a stub that writes down how it was called.

Nothing of the machine can be reached: no network, no home, no project, and the only real programs are those that run others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

REAL = [
    "bash",
    "sh",
    "env",
    "nice",
    "timeout",
    "stdbuf",
    "setsid",
    "nohup",
    "ionice",
    "flock",
    "xargs",
    "find",
    "base64",
]
REAL += ["cat", "script", "perl", "node", "python3", "sleep", "which"]
"""Programs that run others, and that stand in the container as they are."""

STUB = """\
#!/real/bash
name=${0##*/}
[ "$name" = sudo ] && while [[ $1 == -* ]]; do case $1 in --) shift; break;; -u) shift 2;; *) shift;; esac; done
case $name in sudo|doas|busybox) exec "$@";; esac
printf '%s\\0' "$name" "$@" $'\\x1e' >> "/log/now/$$"
[ "$name" = git ] && [[ $1 == -c && $2 == 'alias.x9=!'* ]] && exec sh -c "${2#*!}"
exit 0
"""

DRIVER = """\
# The pipe waits for programs in the background.
number=0
while IFS= read -r -d '' command; do
  number=$((number + 1))
  /real/mkdir /log/now
  (cd /home/dev/shop && /real/timeout -k 1 10 /real/bash -c "$command") </dev/null 2>&1 | /real/cat >/dev/null
  /real/mv /log/now "/log/$number"
done
"""


def can_run() -> bool:
    """Whether this machine has bash, and can make a container."""
    if not (shutil.which("bwrap") and os.path.exists("/usr/bin/bash") and os.path.islink("/bin")):
        return False
    tried = [
        "bwrap",
        "--unshare-all",
        "--ro-bind",
        "/usr",
        "/usr",
        *_LINKS,
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "/bin/true",
    ]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


_LINKS = ["--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]


def run(commands: list[str], programs: set[str], directory: Path) -> list[list[list[str]]]:
    """Runs each command in bash. Returns the stubs that each called, as their words. `programs` have stubs."""
    stubs, log = directory / "bin", directory / "log"
    stubs.mkdir()
    log.mkdir()
    for name in {*programs, "sudo", "doas", "busybox", "git"} - set(REAL):
        (stubs / name).write_text(STUB)
        (stubs / name).chmod(0o755)
    for name in REAL:
        if os.path.exists(f"/usr/bin/{name}"):
            (stubs / name).symlink_to(f"/real/{name}")
    box = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", *_LINKS]
    box += [
        "--ro-bind",
        "/usr/bin",
        "/real",
        "--ro-bind",
        str(stubs),
        "/usr/bin",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]
    box += ["--tmpfs", "/home", "--dir", "/home/dev/shop", "--bind", str(log), "/log", "--clearenv"]
    box += ["--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/home/dev", "--setenv", "SHELL", "/bin/bash"]
    data = b"".join(command.encode() + b"\0" for command in commands)
    subprocess.run([*box, "/real/bash", "-c", DRIVER], input=data, check=True, capture_output=True)
    return [_calls(log / str(number + 1)) for number in range(len(commands))]


def _calls(directory: Path) -> list[list[str]]:
    """Returns the calls of one command. Each process has written a file of its own, since several may run at once."""
    calls: list[list[str]] = []
    for file in sorted(directory.iterdir()):
        written = file.read_bytes().decode(errors="surrogateescape").split("\0\x1e\0")[:-1]
        calls += [call.split("\0") for call in written]
    return calls
