/* A review gate, a tool plugin and a redactor in one hook, with only the C library.
 *
 * Build it with: cc -O2 -o hook hook.c
 * Run it with:   ./hook
 *
 * A JSON value is a piece of the line that it came in, and is copied as it is where it is only passed on. Strings are decoded
 * into buffers that know their length: they may hold NUL.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 512

static const char WEATHER[] =
    "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"Today's weather in a city.\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}}}";
static const char CONTINUE[] = "\"result\":{\"action\":\"continue\"}";

typedef struct {
    const char *at, *end; /* NULL where there is no value */
} json;

typedef struct {
    char *data;
    size_t size, room;
} text;

/* Text */

static void add(text *to, const char *data, size_t size) {
    if (size > to->room - to->size) {
        to->room = (to->size + size) * 2;
        to->data = realloc(to->data, to->room);
        if (to->data == NULL) {
            perror("hook");
            exit(1);
        }
    }
    if (size > 0) memcpy(to->data + to->size, data, size);
    to->size += size;
}

static void put(text *to, const char *string) { add(to, string, strlen(string)); }

static void put_quoted(text *to, const char *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        char escape[7];
        if (c < ' ')
            add(to, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
        else if (c == '"' || c == '\\')
            add(to, (char[]){'\\', (char)c}, 2);
        else
            add(to, data + i, 1);
    }
}

static bool is(const text *given, const char *string) {
    return given->size == strlen(string) && memcmp(given->data, string, given->size) == 0;
}

/* JSON: each skip_ function returns where the thing that begins at s ends, or NULL if there is no such thing. */

static const char *skip_space(const char *s) { return s + strspn(s, " \t\r\n"); }

static const char *skip_string(const char *s) {
    if (*s++ != '"') return NULL;
    for (; *s != '"'; s++) {
        if ((unsigned char)*s < ' ') return NULL;
        if (*s != '\\') continue;
        s++;
        if (*s == '\0' || strchr("\"\\/bfnrtu", *s) == NULL) return NULL;
        if (*s == 'u') {
            if (strspn(s + 1, "0123456789abcdefABCDEF") < 4) return NULL;
            s += 4;
        }
    }
    return s + 1;
}

static const char *skip_digits(const char *s) {
    size_t count = strspn(s, "0123456789");
    return count > 0 ? s + count : NULL;
}

static const char *skip_number(const char *s) {
    s = skip_digits(s + (*s == '-'));
    if (s != NULL && *s == '.') s = skip_digits(s + 1);
    if (s != NULL && (*s == 'e' || *s == 'E')) s = skip_digits(s + 1 + (s[1] == '-' || s[1] == '+'));
    return s;
}

static const char *skip_value(const char *s, int depth) {
    if (depth > MAX_DEPTH) return NULL;
    if (*s == '"') return skip_string(s);
    if (strncmp(s, "true", 4) == 0 || strncmp(s, "null", 4) == 0) return s + 4;
    if (strncmp(s, "false", 5) == 0) return s + 5;
    if (*s != '{' && *s != '[') return skip_number(s);

    bool object = *s == '{';
    char close = object ? '}' : ']';
    s = skip_space(s + 1);
    if (*s == close) return s + 1;
    for (;; s = skip_space(s + 1)) {
        if (object) {
            s = skip_string(s);
            if (s == NULL || *(s = skip_space(s)) != ':') return NULL;
            s = skip_space(s + 1);
        }
        s = skip_value(s, depth + 1);
        if (s == NULL) return NULL;
        s = skip_space(s);
        if (*s == close) return s + 1;
        if (*s != ',') return NULL;
    }
}

static json value_at(const char *s) { return (json){s, skip_value(s, 0)}; }

/* The value in a line; the end of a value that is not JSON, or not alone in its line, is NULL. */
static json parse(const char *line, size_t size) {
    json value = value_at(skip_space(line));
    if (value.end != NULL && skip_space(value.end) != line + size) value.end = NULL;
    return value;
}

/* The first item or member of a value, and the one after another; NULL where there is none. */
static const char *first(json in) {
    if (in.at == NULL || (*in.at != '{' && *in.at != '[')) return NULL;
    const char *s = skip_space(in.at + 1);
    return *s == '}' || *s == ']' ? NULL : s;
}

static const char *next(json value) {
    const char *s = skip_space(value.end);
    return *s == ',' ? skip_space(s + 1) : NULL;
}

static unsigned long hex(const char *s) { return strtoul((char[]){s[0], s[1], s[2], s[3], '\0'}, NULL, 16); }

static void put_utf8(text *to, unsigned long c) {
    char bytes[4];
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, c >>= 6) bytes[i] = (char)(0x80 | (c & 0x3f));
    bytes[0] = (char)((size == 1 ? 0 : 0xf00UL >> size) | c);
    add(to, bytes, size);
}

/* What a string says; empty for any other value. The caller frees it. */
static text decoded(json value) {
    text to = {0};
    if (value.at == NULL || *value.at != '"') return to;
    for (const char *s = value.at + 1; s < value.end - 1; s++) {
        if (*s != '\\') {
            add(&to, s, 1);
        } else if (*++s == 'u') {
            unsigned long c = hex(s + 1);
            s += 4;
            if (c >> 10 == 0x36 && s[1] == '\\' && s[2] == 'u' && hex(s + 3) >> 10 == 0x37) {
                c = 0x10000 + ((c & 0x3ff) << 10) + (hex(s + 3) & 0x3ff);
                s += 6;
            }
            put_utf8(&to, c >> 11 == 0x1b ? 0xfffd : c); /* one half of a pair is no character */
        } else {
            static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
            const char *letter = strchr(letters, *s);
            add(&to, letter == NULL ? s : meant + (letter - letters), 1);
        }
    }
    return to;
}

/* The member of an object; none where there is none, or this is no object. */
static json member(json object, const char *name) {
    if (object.at == NULL || *object.at != '{') return (json){0};
    for (const char *s = first(object); s != NULL;) {
        json key = value_at(s);
        json value = value_at(skip_space(skip_space(key.end) + 1));
        text known = decoded(key);
        bool found = is(&known, name);
        free(known.data);
        if (found) return value;
        s = next(value);
    }
    return (json){0};
}

/* The stages: each appends the reply without its id. */

static void before_llm(text *reply, json params) {
    json tools = member(params, "tools");
    text offered = {0};
    bool there = false;
    for (const char *s = first(tools); s != NULL;) {
        json tool = value_at(s);
        text name = decoded(member(member(tool, "function"), "name"));
        there = there || is(&name, "get_weather");
        free(name.data);
        add(&offered, tool.at, (size_t)(tool.end - tool.at));
        put(&offered, ",");
        s = next(tool);
    }
    if (there) {
        put(reply, CONTINUE);
    } else {
        put(reply, "\"result\":{\"action\":\"modify\",\"request\":{\"tools\":[");
        add(reply, offered.data, offered.size);
        put(reply, WEATHER);
        put(reply, "]}}");
    }
    free(offered.data);
}

static void before_tool(text *reply, json params) {
    json arguments = member(params, "arguments");
    text tool = decoded(member(params, "tool"));
    text city = decoded(member(arguments, "city"));
    json given = member(arguments, "command");
    text command = decoded(given);
    bool unread = given.at != NULL && *given.at != '"' && *given.at != 'n'; /* neither text nor null */
    bool removes = unread || (command.size > 0 && memmem(command.data, command.size, "rm -rf", 6) != NULL);
    if (is(&tool, "get_weather")) {
        put(reply, "\"result\":{\"action\":\"respond\",\"result\":{\"for_llm\":\"");
        put_quoted(reply, city.data, city.size);
        put(reply, ": 21 °C, sunny\"}}");
    } else if (is(&tool, "bash") && removes) {
        put(reply, "\"result\":{\"action\":\"deny_tool\",\"reason\":\"rm -rf is not allowed\"}");
    } else {
        put(reply, CONTINUE);
    }
    free(tool.data);
    free(city.data);
    free(command.data);
}

static void approve_tool(text *reply, json params) {
    static const char *const read_only[] = {"read_file", "list_dir", "search", "get_weather"};
    text tool = decoded(member(params, "tool"));
    bool approved = false;
    for (size_t i = 0; i < sizeof read_only / sizeof *read_only; i++) approved = approved || is(&tool, read_only[i]);
    if (approved) {
        put(reply, "\"result\":{\"approved\":true}");
    } else {
        put(reply, "\"result\":{\"approved\":false,\"reason\":\"");
        put_quoted(reply, tool.data, tool.size);
        put(reply, " is not a read-only tool\"}");
    }
    free(tool.data);
}

static bool is_alphanumeric(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* How long the password is whose "password=" is at s, and how long the API key is that is at s; 0: there is none. */
static size_t password(const char *s, size_t left) {
    static const char name[] = "password=";
    size_t size = sizeof name - 1;
    if (left <= size || memcmp(s, name, size) != 0) return 0;
    while (size < left && memchr(" \t\n\v\f\r", s[size], 6) == NULL) size++;
    return size - (sizeof name - 1);
}

static size_t api_key(const char *s, size_t left) {
    if (left < 3 || memcmp(s, "sk-", 3) != 0) return 0;
    size_t size = 3;
    while (size < left && is_alphanumeric(s[size])) size++;
    return size >= 3 + 8 ? size : 0;
}

/* The text without its secrets; the caller frees it. */
static text redacted(const text *given) {
    text clean = {0};
    for (size_t i = 0, size; i < given->size;) {
        const char *s = given->data + i;
        if ((size = password(s, given->size - i)) > 0) {
            put(&clean, "password=[redacted]");
            i += strlen("password=") + size;
        } else if ((size = api_key(s, given->size - i)) > 0) {
            put(&clean, "[redacted]");
            i += size;
        } else {
            add(&clean, s, 1);
            i++;
        }
    }
    return clean;
}

static void after_tool(text *reply, json params) {
    static const char *const names[] = {"for_llm", "for_user"};
    text changes = {0};
    for (size_t i = 0; i < 2; i++) {
        text given = decoded(member(member(params, "result"), names[i]));
        text clean = redacted(&given);
        if (clean.size != given.size || (clean.size > 0 && memcmp(clean.data, given.data, clean.size) != 0)) {
            put(&changes, changes.size > 0 ? ",\"" : "\"");
            put(&changes, names[i]);
            put(&changes, "\":\"");
            put_quoted(&changes, clean.data, clean.size);
            put(&changes, "\"");
        }
        free(given.data);
        free(clean.data);
    }
    if (changes.size == 0) {
        put(reply, CONTINUE);
    } else {
        put(reply, "\"result\":{\"action\":\"modify\",\"result\":{");
        add(reply, changes.data, changes.size);
        put(reply, "}}");
    }
    free(changes.data);
}

static void answer(text *reply, json request) {
    text method = decoded(member(request, "method"));
    json params = member(request, "params");
    if (is(&method, "hook.hello")) {
        put(reply, "\"result\":{\"ok\":true,\"name\":\"c\"}");
    } else if (is(&method, "hook.before_llm")) {
        before_llm(reply, params);
    } else if (is(&method, "hook.before_tool")) {
        before_tool(reply, params);
    } else if (is(&method, "hook.approve_tool")) {
        approve_tool(reply, params);
    } else if (is(&method, "hook.after_tool")) {
        after_tool(reply, params);
    } else {
        put(reply, "\"error\":{\"code\":-32601,\"message\":\"no such method: ");
        put_quoted(reply, method.data, method.size);
        put(reply, "\"}");
    }
    free(method.data);
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    for (ssize_t size; (size = getline(&line, &room, stdin)) > 0;) {
        json request = parse(line, (size_t)size);
        if (request.end == NULL) {
            fprintf(stderr, "not JSON: %s", line);
            continue;
        }
        json id = member(request, "id"), method = member(request, "method");
        if (id.at == NULL || *id.at == '0' || *id.at == 'n') continue; /* none, 0 or null: a notification, from PicoClaw too */
        if (method.at == NULL || *method.at != '"') continue; /* not a request */
        text reply = {0};
        put(&reply, "{\"jsonrpc\":\"2.0\",\"id\":");
        add(&reply, id.at, (size_t)(id.end - id.at));
        put(&reply, ",");
        answer(&reply, request);
        put(&reply, "}\n");
        fwrite(reply.data, 1, reply.size, stdout);
        fflush(stdout);
        free(reply.data);
    }
    free(line);
    return 0;
}
