"""What a shell is to a terminal: the leader of its session. It runs one program there, in a process group of its own.

`python leader.py TERMINAL CONTROL foreground|background PROGRAM ARGUMENT...`. When the program is stopped, it writes a byte to
CONTROL. It reads one before it lets the program go on.
"""

import fcntl
import os
import signal
import sys
import termios


def main(terminal, control, where, *program):
    terminal, control = int(terminal), int(control)
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    settings = termios.tcgetattr(terminal)
    settings[3] |= termios.TOSTOP  # a program in the background that writes is stopped
    termios.tcsetattr(terminal, termios.TCSANOW, settings)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # as in every shell
    pid = os.fork()
    if not pid:
        os.setpgid(0, 0)
        if where == "foreground":
            os.tcsetpgrp(terminal, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        for fd in (terminal, control):
            os.close(fd)
        os.execvp(program[0], program)
    while os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]):
        os.write(control, b".")
        os.read(control, 1)
        os.tcsetpgrp(terminal, pid)
        os.killpg(pid, signal.SIGCONT)


if __name__ == "__main__":
    main(*sys.argv[1:])
