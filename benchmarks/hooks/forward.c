/* The least that can stand between a client and a server: it starts the server, and forwards bytes both ways. */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

static int forward(int from, int to) {
    static char buffer[1 << 17];
    ssize_t size = read(from, buffer, sizeof buffer), at = 0, wrote;
    while (at < size && (wrote = write(to, buffer + at, (size_t)(size - at))) > 0) at += wrote;
    return size > 0;
}

int main(int count, char **arguments) {
    int in[2], out[2];
    if (count < 2 || pipe(in) || pipe(out)) return 2;
    if (!fork()) {
        dup2(in[0], 0), dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execvp(arguments[1], arguments + 1);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    struct pollfd ends[2] = {{0, POLLIN, 0}, {out[0], POLLIN, 0}};
    while (poll(ends, 2, -1) > 0) {
        if (ends[0].revents && !forward(0, in[1])) return 0;
        if (ends[1].revents && !forward(out[0], 1)) return 0;
    }
    return 0;
}
