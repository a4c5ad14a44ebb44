//! A review gate, a tool plugin and a redactor in one hook, with only Rust's standard library.
//!
//! Build it with: rustc --edition 2021 -O hook.rs
//! Run it with:   ./hook
//!
//! With serde_json, the half of this file that is about JSON is not needed.

use std::fmt;
use std::io::{self, BufRead, Write};

const READ_ONLY: [&str; 4] = ["read_file", "list_dir", "search", "get_weather"];
const WEATHER: &str = r#"{"type":"function","function":{"name":"get_weather","description":"Today's weather in a city.",
    "parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}"#;

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

fn before_tool(call: &Json) -> Json {
    let given = call.get("arguments");
    match call.get("tool").text() {
        "get_weather" => {
            let weather = format!("{}: 21 °C, sunny", given.get("city").text());
            object([
                ("action", "respond".into()),
                ("result", object([("for_llm", weather.as_str().into())])),
            ])
        }
        "bash" if given.get("command").text().contains("rm -rf") => object([
            ("action", "deny_tool".into()),
            ("reason", "rm -rf is not allowed".into()),
        ]),
        _ => object([("action", "continue".into())]),
    }
}

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

fn answer(method: &str, params: &Json) -> (&'static str, Json) {
    let result = match method {
        "hook.hello" => object([("ok", Json::Bool(true)), ("name", "rust".into())]),
        "hook.before_llm" => before_llm(params),
        "hook.before_tool" => before_tool(params),
        "hook.approve_tool" => approve_tool(params),
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

fn main() -> io::Result<()> {
    let mut replies = io::stdout().lock();
    for line in io::stdin().lock().split(b'\n') {
        let line = line?;
        let Some(request) = std::str::from_utf8(&line).ok().and_then(Json::parse) else {
            eprintln!("not JSON: {}", String::from_utf8_lossy(&line));
            continue;
        };
        let Json::Text(method) = request.get("method") else {
            continue; // not a request
        };
        let id = match request.get("id") {
            Json::Null => continue, // a notification
            Json::Number(zero) if zero == "0" => continue, // and PicoClaw's
            id => id,
        };
        let (field, said) = answer(method, request.get("params"));
        let reply = object([("jsonrpc", "2.0".into()), ("id", id.clone()), (field, said)]);
        writeln!(replies, "{reply}")?;
        replies.flush()?;
    }
    Ok(())
}

/// JSON. A number stays the text that it was, so that not a digit of it changes.
#[derive(Clone)]
enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(
        members
            .map(|(name, value)| (name.to_string(), value))
            .into(),
    )
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Json::Text(text.to_string())
    }
}

impl Json {
    fn parse(text: &str) -> Option<Json> {
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(0)?;
        parser.peek().is_none().then_some(value)
    }

    /// The member of this name; null where there is none, or this is no object.
    fn get(&self, name: &str) -> &Json {
        let Json::Object(members) = self else {
            return &Json::Null;
        };
        members
            .iter()
            .find(|(key, _)| key == name)
            .map_or(&Json::Null, |(_, value)| value)
    }

    fn text(&self) -> &str {
        if let Json::Text(text) = self {
            text
        } else {
            ""
        }
    }

    fn items(&self) -> &[Json] {
        if let Json::List(items) = self {
            items
        } else {
            &[]
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let bytes = &self.text.as_bytes()[self.at..];
        self.at += bytes
            .iter()
            .take_while(|byte| b" \t\r\n".contains(byte))
            .count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, token: &str) -> Option<()> {
        self.peek()?;
        self.text[self.at..]
            .starts_with(token)
            .then(|| self.at += token.len())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > 512 {
            return None;
        }
        match self.peek()? {
            b'{' => {
                let mut members = Vec::new();
                self.series("{", "}", |parser| {
                    let name = parser.string()?;
                    parser.eat(":")?;
                    members.push((name, parser.value(depth + 1)?));
                    Some(())
                })?;
                Some(Json::Object(members))
            }
            b'[' => {
                let mut items = Vec::new();
                self.series("[", "]", |parser| {
                    items.push(parser.value(depth + 1)?);
                    Some(())
                })?;
                Some(Json::List(items))
            }
            b'"' => self.string().map(Json::Text),
            b't' => self.eat("true").map(|()| Json::Bool(true)),
            b'f' => self.eat("false").map(|()| Json::Bool(false)),
            b'n' => self.eat("null").map(|()| Json::Null),
            _ => self.number(),
        }
    }

    fn series(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.eat(open)?;
        if self.eat(close).is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            if self.eat(",").is_none() {
                return self.eat(close);
            }
        }
    }

    fn number(&mut self) -> Option<Json> {
        let rest = &self.text[self.at..];
        let number = &rest[..rest
            .find(|c: char| !"+-.eE0123456789".contains(c))
            .unwrap_or(rest.len())];
        self.at += number.len();
        number
            .parse::<f64>()
            .ok()
            .map(|_| Json::Number(number.to_string()))
    }

    fn string(&mut self) -> Option<String> {
        self.eat("\"")?;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c| c == '"' || c == '\\' || c < ' ')?;
            text.push_str(&rest[..plain]);
            self.at += plain + 1;
            match rest.as_bytes()[plain] {
                b'"' => return Some(text),
                b'\\' => text.push(self.escape()?),
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let letter = *self.text.as_bytes().get(self.at)?;
        self.at += 1;
        Some(match letter {
            b'"' | b'\\' | b'/' => letter.into(),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => match self.unit()? {
                high @ 0xd800..0xdc00 if self.text[self.at..].starts_with("\\u") => {
                    self.at += 2;
                    let low = self.unit().filter(|low| (0xdc00..0xe000).contains(low))?;
                    char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?
                }
                unit => char::from_u32(unit)?, // not one half of a pair
            },
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Bool(value) => write!(out, "{value}"),
            Json::Number(digits) => out.write_str(digits),
            Json::Text(text) => quote(out, text),
            Json::List(items) => {
                out.write_str("[")?;
                for (place, item) in items.iter().enumerate() {
                    write!(out, "{}{item}", if place > 0 { "," } else { "" })?;
                }
                out.write_str("]")
            }
            Json::Object(members) => {
                out.write_str("{")?;
                for (place, (name, value)) in members.iter().enumerate() {
                    out.write_str(if place > 0 { "," } else { "" })?;
                    quote(out, name)?;
                    write!(out, ":{value}")?;
                }
                out.write_str("}")
            }
        }
    }
}

fn quote(out: &mut fmt::Formatter, text: &str) -> fmt::Result {
    out.write_str("\"")?;
    let mut rest = text;
    while let Some(at) = rest.find(|c| c == '"' || c == '\\' || c < ' ') {
        out.write_str(&rest[..at])?;
        match rest.as_bytes()[at] {
            mark @ (b'"' | b'\\') => write!(out, "\\{}", char::from(mark))?,
            control => write!(out, "\\u{control:04x}")?,
        }
        rest = &rest[at + 1..];
    }
    write!(out, "{rest}\"")
}
