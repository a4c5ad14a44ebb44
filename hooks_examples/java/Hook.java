// A review gate, a tool plugin and a redactor in one hook, with only the JDK.
//
// Run it with: java -XX:-UsePerfData Hook.java        (needs: Java 17 or newer; "javac Hook.java && java Hook" starts faster)
// The option keeps the JVM from warning on standard output, where only answers belong, when two of them have the same process id.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.regex.Pattern;

public class Hook {
    static final Set<String> READ_ONLY = Set.of("read_file", "list_dir", "search", "get_weather");
    static final Pattern SECRETS = Pattern.compile("(?<=password=)\\S+|sk-[A-Za-z0-9]{8,}");
    static final Object WEATHER = Json.parse("""
        {"type": "function", "function": {"name": "get_weather", "description": "Today's weather in a city.",
         "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}""");
    static final Map<String, Object> CONTINUE = Map.of("action", "continue");

    static Map<String, Object> beforeLlm(Map<?, ?> request) {
        var tools = new ArrayList<Object>(request.get("tools") instanceof List<?> offered ? offered : List.of());
        if (tools.contains(WEATHER)) {
            return CONTINUE;
        }
        tools.add(WEATHER);
        return Map.of("action", "modify", "request", Map.of("tools", tools));
    }

    static Map<String, Object> beforeTool(Map<?, ?> call) {
        var given = object(call.get("arguments"));
        if ("get_weather".equals(call.get("tool"))) {
            return Map.of("action", "respond", "result", Map.of("for_llm", text(given.get("city")) + ": 21 °C, sunny"));
        }
        var command = given.get("command");
        var unread = command != null && !(command instanceof String);
        if ("bash".equals(call.get("tool")) && (unread || text(command).contains("rm -rf"))) {
            return Map.of("action", "deny_tool", "reason", "rm -rf is not allowed");
        }
        return CONTINUE;
    }

    static Map<String, Object> approveTool(Map<?, ?> call) {
        var tool = text(call.get("tool"));
        return READ_ONLY.contains(tool)
            ? Map.of("approved", true)
            : Map.of("approved", false, "reason", tool + " is not a read-only tool");
    }

    static Map<String, Object> afterTool(Map<?, ?> call) {
        var clean = new LinkedHashMap<String, Object>();
        for (var name : List.of("for_llm", "for_user")) {
            var text = text(object(call.get("result")).get(name));
            var redacted = SECRETS.matcher(text).replaceAll("[redacted]");
            if (!redacted.equals(text)) {
                clean.put(name, redacted);
            }
        }
        return clean.isEmpty() ? CONTINUE : Map.of("action", "modify", "result", clean);
    }

    /** The value as an object, an empty one if it is none. */
    static Map<?, ?> object(Object value) {
        return value instanceof Map<?, ?> object ? object : Map.of();
    }

    static String text(Object value) {
        return value instanceof String text ? text : "";
    }

    static Map<String, Object> answer(Map<?, ?> request) {
        var method = text(request.get("method"));
        var params = object(request.get("params"));
        var reply = new LinkedHashMap<String, Object>();
        reply.put("jsonrpc", "2.0");
        reply.put("id", request.get("id"));
        var result = switch (method) {
            case "hook.hello" -> Map.of("ok", true, "name", "java");
            case "hook.before_llm" -> beforeLlm(params);
            case "hook.before_tool" -> beforeTool(params);
            case "hook.approve_tool" -> approveTool(params);
            case "hook.after_tool" -> afterTool(params);
            default -> null;
        };
        if (result != null) {
            reply.put("result", result);
        } else {
            reply.put("error", Map.of("code", new BigDecimal(-32601), "message", "no such method: " + method));
        }
        return reply;
    }

    public static void main(String[] arguments) throws IOException {
        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var replies = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line; (line = requests.readLine()) != null; ) {
            Map<?, ?> request;
            try {
                request = object(Json.parse(line));
            } catch (IllegalArgumentException error) {
                System.err.println("not JSON: " + error.getMessage());
                continue;
            }
            var id = request.get("id"); // none or 0: a notification, from PicoClaw too
            if (request.get("method") instanceof String && id != null && !id.equals(BigDecimal.ZERO)) {
                replies.print(Json.write(answer(request)) + "\n");
                replies.flush();
            }
        }
    }
}

/** JSON as maps, lists, strings, booleans, null, and numbers that keep all their digits. */
final class Json {
    private static final Pattern NUMBER = Pattern.compile("-?(0|[1-9]\\d*)(\\.\\d+)?([eE][+-]?\\d+)?");
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object parse(String text) {
        var json = new Json(text);
        var value = json.value(0);
        if (json.peek() != 0) {
            throw json.unexpected();
        }
        return value;
    }

    static String write(Object value) {
        var out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> object) {
            var separator = "{";
            for (var member : object.entrySet()) {
                out.append(separator);
                write(member.getKey(), out);
                out.append(':');
                write(member.getValue(), out);
                separator = ",";
            }
            out.append(object.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> list) {
            var separator = "[";
            for (var item : list) {
                out.append(separator);
                write(item, out);
                separator = ",";
            }
            out.append(list.isEmpty() ? "[]" : "]");
        } else if (value instanceof String string) {
            out.append('"');
            string.chars().forEach(c -> {
                if (c == '"' || c == '\\') {
                    out.append('\\').append((char) c);
                } else if (c < ' ') {
                    out.append("\\u%04x".formatted(c));
                } else {
                    out.append((char) c);
                }
            });
            out.append('"');
        } else {
            out.append(value);
        }
    }

    private Object value(int depth) {
        if (depth > 512) {
            throw new IllegalArgumentException("nested too deeply");
        }
        return switch (peek()) {
            case '{' -> {
                var object = new LinkedHashMap<String, Object>();
                series('}', () -> {
                    var name = string();
                    expect(':');
                    return object.put(name, value(depth + 1));
                });
                yield object;
            }
            case '[' -> {
                var list = new ArrayList<Object>();
                series(']', () -> list.add(value(depth + 1)));
                yield list;
            }
            case '"' -> string();
            case 't' -> literal("true", true);
            case 'f' -> literal("false", false);
            case 'n' -> literal("null", null);
            default -> number();
        };
    }

    /** The next character that is not white space, 0 at the end. */
    private char peek() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private void expect(char wanted) {
        if (peek() != wanted) {
            throw unexpected();
        }
        at++;
    }

    private void series(char close, Supplier<Object> item) {
        at++;
        if (peek() != close) {
            item.get();
            while (peek() == ',') {
                at++;
                item.get();
            }
        }
        expect(close);
    }

    private Object literal(String name, Object value) {
        if (!text.startsWith(name, at)) {
            throw unexpected();
        }
        at += name.length();
        return value;
    }

    private BigDecimal number() {
        var number = NUMBER.matcher(text).region(at, text.length());
        if (!number.lookingAt()) {
            throw unexpected();
        }
        at = number.end();
        return new BigDecimal(number.group());
    }

    private String string() {
        expect('"');
        var string = new StringBuilder();
        while (at < text.length() && text.charAt(at) >= ' ') {
            char c = text.charAt(at++);
            if (c == '"') {
                return string.toString();
            }
            string.append(c == '\\' ? escaped() : c);
        }
        throw unexpected();
    }

    private char escaped() {
        char c = at < text.length() ? text.charAt(at++) : 0;
        return switch (c) {
            case '"', '\\', '/' -> c;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> {
                if (at + 4 > text.length()) {
                    throw unexpected();
                }
                at += 4;
                yield (char) Integer.parseInt(text.substring(at - 4, at), 16);
            }
            default -> throw unexpected();
        };
    }

    private IllegalArgumentException unexpected() {
        return new IllegalArgumentException("unexpected at character " + at);
    }
}
