/* A program that stands for one forked from a preloaded process: it passes on signals, and ends as that one ends.
 *
 * AT is the socket of the preloaded process, PROGRAM what that is to become, PYTHON the real one. See preload.py and preloaded.py.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <arpa/inet.h>

extern char **environ;

static volatile sig_atomic_t program, pending;
static int server;

static void pass_on(int number) {
    if (program) {
        kill(program, number);
    } else {
        pending = number;
    }
}

static void give_up(const char *what) {
    perror(what);
    _exit(127);
}

static char *put(char *at, const char *text) {
    return stpcpy(at, text) + 1;
}

/* The next line, a number; 0 at the end. */
static int number(void) {
    char line[32];
    size_t length = 0;
    while (length < sizeof line - 1 && read(server, line + length, 1) == 1 && line[length] != '\n') {
        length++;
    }
    line[length] = 0;
    return length ? atoi(line) : -1;
}

int main(int argc, char **argv) {
    int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaction(numbers[i], &action, NULL);
    }

    char cwd[4096], count[16];
    if (!getcwd(cwd, sizeof cwd)) {
        give_up("getcwd");
    }
    snprintf(count, sizeof count, "%d", argc - 1);
    size_t size = sizeof PROGRAM + strlen(cwd) + 1 + strlen(count) + 1;
    for (int i = 1; i < argc; i++) {
        size += strlen(argv[i]) + 1;
    }
    for (char **entry = environ; *entry; entry++) {
        size += strlen(*entry) + 1;
    }
    char *order = malloc(size + 4), *at = order + 4;
    uint32_t told = htonl((uint32_t)size - 1); /* without the last null byte */
    memcpy(order, &told, 4);
    at = put(put(put(at, PROGRAM), cwd), count);
    for (int i = 1; i < argc; i++) {
        at = put(at, argv[i]);
    }
    for (char **entry = environ; *entry; entry++) {
        at = put(at, *entry);
    }

    struct sockaddr_un where = {.sun_family = AF_UNIX, .sun_path = AT};
    server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(server, (struct sockaddr *)&where, sizeof where)) {
        if (!strcmp(PROGRAM, "python")) {
            execv(PYTHON, argv); /* in a sandbox that hides the socket */
        }
        give_up(AT);
    }
    int streams[3] = {0, 1, 2};
    char space[CMSG_SPACE(sizeof streams)] = {0};
    struct iovec data = {order, 4};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof streams);
    memcpy(CMSG_DATA(rights), streams, sizeof streams);
    if (sendmsg(server, &message, 0) != 4) {
        give_up("sendmsg");
    }
    for (size_t sent = 4; sent < size + 3;) {
        ssize_t more = write(server, order + sent, size + 3 - sent);
        if (more < 0) {
            give_up("write");
        }
        sent += (size_t)more;
    }
    for (int fd = 0; fd < 3; fd++) {
        close(fd); /* its readers see the program's end, and not this one's */
    }

    int started = number();
    if (started <= 0) {
        give_up("the preloaded process started nothing");
    }
    program = started;
    if (pending) {
        kill(program, pending);
    }
    int status = number();
    if (status < 0) {
        status = SIGKILL; /* the preloaded process is gone */
    }
    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(WTERMSIG(status), SIG_DFL);
        kill(getpid(), WTERMSIG(status));
    }
    _exit(WEXITSTATUS(status));
}
