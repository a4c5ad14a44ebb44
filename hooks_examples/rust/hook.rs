//! A review gate, a tool plugin and a redactor in one hook.
//!
//! Run it with: rustc --edition 2021 -O hook.rs && ./hook
//!
//! A stage returns its decision. The host logs what goes to stderr; stdout is for the protocol.

mod json;

use json::{object, Json};
use std::io::{self, BufRead, Write};

const READ_ONLY: &[&str] = &["read_file", "list_dir", "search", "get_weather"];
const WEATHER: &str = r#"{"type":"function","function":{"name":"get_weather","description":"Today's weather in a city.",
    "parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}"#;

fn answer(method: &str, params: &Json) -> (&'static str, Json) {
    let result = match method {
        "hook.hello" => object([("ok", Json::Bool(true)), ("name", "rust".into())]),
        "hook.before_tool" => before_tool(params),
        "hook.approve_tool" => approve_tool(params),
        "hook.before_llm" => before_llm(params),
        "hook.after_tool" => after_tool(params),
        _ => {
            let message = format!("no such method: {method}");
            let code = Json::Number("-32601".into());
            return (
                "error",
                object([("code", code), ("message", message.as_str().into())]),
            );
        }
    };
    ("result", result)
}

/// A tool is about to be called. Some agents write bash, and some Bash.
fn before_tool(call: &Json) -> Json {
    let given = call.get("arguments");
    if call.get("tool").text().eq_ignore_ascii_case("bash") && removes(given.get("command")) {
        return object([
            ("action", "deny_tool".into()),
            ("reason", "rm -rf is not allowed".into()),
        ]);
    }
    if call.get("tool").text() == "get_weather" {
        let weather = format!("{}: 21 °C, sunny", given.get("city").text());
        return object([
            ("action", "respond".into()),
            ("result", object([("for_llm", weather.as_str().into())])),
        ]);
    }
    object([("action", "continue".into())])
}

/// Whether a command removes files, or may do so because it is not text.
fn removes(command: &Json) -> bool {
    match command {
        Json::Text(text) => text.contains("rm -rf"),
        other => *other != Json::Null,
    }
}

/// May a tool be called? Anything but a clear yes is a no.
fn approve_tool(call: &Json) -> Json {
    let tool = call.get("tool").text();
    if READ_ONLY.contains(&tool) {
        return object([("approved", Json::Bool(true))]);
    }
    let reason = format!("{tool} is not a read-only tool");
    object([
        ("approved", Json::Bool(false)),
        ("reason", reason.as_str().into()),
    ])
}

fn before_llm(request: &Json) -> Json {
    let offered = request.get("tools").items();
    if offered
        .iter()
        .any(|tool| tool.get("function").get("name").text() == "get_weather")
    {
        return object([("action", "continue".into())]);
    }
    let tools = offered
        .iter()
        .cloned()
        .chain(Json::parse(WEATHER))
        .collect();
    object([
        ("action", "modify".into()),
        ("request", object([("tools", Json::List(tools))])),
    ])
}

fn after_tool(call: &Json) -> Json {
    let clean: Vec<_> = ["for_llm", "for_user"]
        .into_iter()
        .filter_map(|name| {
            Some((
                name.to_string(),
                redact(call.get("result").get(name).text())?.as_str().into(),
            ))
        })
        .collect();
    if clean.is_empty() {
        return object([("action", "continue".into())]);
    }
    object([("action", "modify".into()), ("result", Json::Object(clean))])
}

/// The text without its secrets, if there are any: `password=...`, and `sk-` with eight or more letters and digits.
fn redact(text: &str) -> Option<String> {
    let (mut clean, mut rest, mut found) = (String::new(), text, false);
    while let Some(first) = rest.chars().next() {
        let (keep, secret) = if let Some(after) = rest.strip_prefix("password=") {
            (
                "password=".len(),
                after.find(char::is_whitespace).unwrap_or(after.len()),
            )
        } else if let Some(after) = rest.strip_prefix("sk-") {
            let key = after
                .find(|c: char| !c.is_ascii_alphanumeric())
                .unwrap_or(after.len());
            if key < 8 {
                (first.len_utf8(), 0)
            } else {
                (0, "sk-".len() + key)
            }
        } else {
            (first.len_utf8(), 0)
        };
        clean.push_str(&rest[..keep]);
        if secret > 0 {
            clean.push_str("[redacted]");
            found = true;
        }
        rest = &rest[keep + secret..];
    }
    found.then_some(clean)
}

fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    for line in input.split(b'\n') {
        let line = line?;
        let Some(request) = std::str::from_utf8(&line).ok().and_then(Json::parse) else {
            eprintln!("not JSON: {}", String::from_utf8_lossy(&line));
            continue;
        };
        let id = request.get("id");
        let Json::Text(method) = request.get("method") else {
            continue; // not a request
        };
        if matches!(id.to_string().as_str(), "null" | "0") {
            continue; // an event: it gets no answer
        }
        let (field, said) = answer(method, request.get("params"));
        let reply = object([("jsonrpc", "2.0".into()), ("id", id.clone()), (field, said)]);
        writeln!(output, "{reply}")?;
        output.flush()?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    serve(io::stdin().lock(), io::stdout().lock())
}
