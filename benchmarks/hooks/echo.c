/* A hook that answers as fast as a program can: "continue", or for `echo modify` the whole request back with the model's
   name changed, or for `echo patch` a merge patch that changes it. It reads the id and finds the params; it parses no more. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put(const char *data, size_t size) {
    while (size) {
        ssize_t written = write(1, data, size);
        if (written <= 0) exit(1);
        data += written, size -= (size_t)written;
    }
}

static void answer(const char *mode, const char *line, size_t size) {
    char head[512];
    const char *id = memmem(line, size < 200 ? size : 200, "\"id\":", 5);
    if (!id) return;
    int length = snprintf(head, sizeof head, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":", strtol(id + 5, 0, 10));
    const char *params = memmem(line, size < 400 ? size : 400, "\"params\":", 9);
    const char *model = params ? memmem(params, size - (size_t)(params - line), "\"model\":\"", 9) : 0;
    if (*mode == 'm' && model && memmem(line, 200, "before_llm", 10)) {
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
    const char *result = *mode == 'p' && model ? "{\"action\":\"modify\",\"patch\":{\"model\":\"other\"}}}\n"
                                                : "{\"action\":\"continue\"}}\n";
    length += snprintf(head + length, sizeof head - (size_t)length, "%s", result);
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
