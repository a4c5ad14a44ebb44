"""A pytest plugin that takes away what Linux has and macOS has not, and gives what is documented of macOS: `make macos`.

It changes the process of the tests alone, so programs that they start are still on Linux.

- picohook believes that it is not on Linux, and its code finds no /proc, no /sys and none of Linux's functions.
- A pipe holds 16 KiB, the least on macOS, where Linux has 64.
- The path of a socket has at most 103 bytes: sun_path has 104.
- asyncio waits by poll: it has no epoll. kqueue cannot be imitated.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import selectors
import signal
import socket
import sys
from pathlib import Path

import pytest

PIPE_SIZE = 16 * 1024
LONGEST_PATH = 103
PACKAGE = str(Path(__file__).parents[2] / "picohook")
LINUX_ONLY = {
    os: "pidfd_open sched_getaffinity sched_setaffinity memfd_create eventfd copy_file_range splice pipe2 setresuid "
    "getxattr setxattr O_DIRECT O_PATH P_PIDFD",
    signal: "pidfd_send_signal",
    fcntl: "F_SETPIPE_SZ F_GETPIPE_SZ",
    resource: "prlimit RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME RLIMIT_SIGPENDING",
}
LEFT_OUT = {
    "test_a_process_is_ending_from_its_exit_until_nothing_is_known_of_it": "it begins on Linux",
    "test_if_no_descriptor_is_left_for_a_pidfd_no_process_stays": "there are no pidfds",
    "test_R2_late_answers_to_cancelled_calls_are_dropped_without_blame": "it fills a pipe of 64 KiB",
    "test_times_below_a_millisecond_are_measured_on_uvloop_too": "elsewhere uvloop has whole milliseconds",
    "test_a_hook_has_default_signal_handling_even_if_its_host_ignores_or_blocks_signals": "the tier `group` inherits them",
    "test_memory_is_that_of_all_processes_of_a_hook": "it is read in /proc",
}
"""Tests of what macOS has not, each with the reason."""
_SET_SIZE, _pipe = fcntl.F_SETPIPE_SZ, os.pipe


def _small_pipe():
    ends = _pipe()
    fcntl.fcntl(ends[1], _SET_SIZE, PIPE_SIZE)
    return ends


class _Socket(socket.socket):
    def bind(self, address):
        super().bind(_short(address))

    def connect(self, address):
        super().connect(_short(address))


def _short(address):
    if isinstance(address, (str, bytes)) and len(os.fsencode(address)) > LONGEST_PATH:
        raise OSError(errno.ENAMETOOLONG, "AF_UNIX path too long")
    return address


def _refuse_what_linux_has(event, arguments):
    named = event in {"open", "os.listdir", "os.scandir"} and str(arguments[0]).startswith(("/proc", "/sys"))
    if named and sys._getframe(1).f_code.co_filename.startswith(PACKAGE):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])


def pytest_configure():
    from picohook.wire import platforms

    platforms.LINUX = False
    for module, names in LINUX_ONLY.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    os.pipe = _small_pipe
    socket.socket = _Socket
    selectors.DefaultSelector = selectors.PollSelector
    sys.addaudithook(_refuse_what_linux_has)


def pytest_collection_modifyitems(items):
    for item in items:
        why = LEFT_OUT.get(item.originalname)
        if why:
            item.add_marker(pytest.mark.skip(reason=f"not on macOS: {why}"))
