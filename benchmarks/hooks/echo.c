/* A hook that answers as fast as a program can: "continue", or the answer that its argument names. It reads the id and finds
   the params; it parses no more.

   `modify` answers a model's request with all of it, its model changed; `patch` with a merge patch that changes the model.
   `reason` continues, `deny` denies, and `edit` changes the arguments of a call; in each answer the text is another one.
   `time` continues, and its reason is when the last event came, in nanoseconds of the monotonic clock. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void put(const char *data, size_t size) {
    while (size) {
        ssize_t written = write(1, data, size);
        if (written <= 0) exit(1);
        data += written, size -= (size_t)written;
    }
}

static const char *const answers[][2] = {
    {"patch", "{\"action\":\"modify\",\"patch\":{\"model\":\"other\"}}}\n"},
    {"reason", "{\"action\":\"continue\",\"reason\":\"call %ld changes no file of the project\"}}\n"},
    {"deny", "{\"action\":\"deny_tool\",\"reason\":\"call %ld would change files of the system\"}}\n"},
    {"edit", "{\"action\":\"modify\",\"call\":{\"arguments\":{\"command\":\"ls -la # %ld\"}}}}\n"},
    {"time", "{\"action\":\"continue\",\"reason\":\"%ld\"}}\n"},
    {"", "{\"action\":\"continue\"}}\n"},
};

static void answer(const char *mode, const char *line, size_t size) {
    static long event;
    char head[512];
    size_t front = size < 200 ? size : 200;
    const char *id = memmem(line, front, "\"id\":", 5);
    if (!id) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        event = now.tv_sec * 1000000000L + now.tv_nsec;
        return;
    }
    long number = strtol(id + 5, 0, 10);
    int length = snprintf(head, sizeof head, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":", number);
    const char *params = memmem(line, size < 400 ? size : 400, "\"params\":", 9);
    const char *model = params ? memmem(params, size - (size_t)(params - line), "\"model\":\"", 9) : 0;
    if (!strcmp(mode, "modify") && model && memmem(line, front, "before_llm", 10)) {
        params += 9, model += 9;
        put(head, (size_t)length);
        static const char edit[] = "{\"action\":\"modify\",\"request\":";
        put(edit, sizeof edit - 1);
        put(params, (size_t)(model - params));
        put("x", 1);
        put(model, size - (size_t)(model - line) - 1);
        put("}}\n", 3);
        return;
    }
    if (*mode == 't') number = event;
    for (int row = 0;; row++) {
        if (!*answers[row][0] || (!strcmp(mode, answers[row][0]) && memmem(line, front, "before_", 7))) {
            length += snprintf(head + length, sizeof head - (size_t)length, answers[row][1], number);
            break;
        }
    }
    put(head, (size_t)length);
}

int main(int count, char **arguments) {
    size_t room = 1 << 17, used = 0;
    char *buffer = malloc(room), *end;
    for (;;) {
        size_t seen = 0;
        while (!(end = memchr(buffer + seen, '\n', used - seen))) {
            seen = used;
            if (used == room) buffer = realloc(buffer, room *= 2);
            ssize_t got = read(0, buffer + used, room - used);
            if (got <= 0) return 0;
            used += (size_t)got;
        }
        size_t size = (size_t)(end - buffer);
        answer(count > 1 ? arguments[1] : "", buffer, size);
        memmove(buffer, end + 1, used - size - 1);
        used -= size + 1;
    }
}
