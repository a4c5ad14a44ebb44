//! As much of JSON as a hook needs, with nothing but the standard library. With serde_json, this file is not needed.

use std::fmt;

/// JSON. A number stays the text that it was, so that not a digit of it changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
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
    pub fn parse(text: &str) -> Option<Json> {
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(0)?;
        parser.peek().is_none().then_some(value)
    }

    /// The member of this name; null where there is none, or this is no object.
    pub fn get(&self, name: &str) -> &Json {
        let Json::Object(members) = self else {
            return &Json::Null;
        };
        members
            .iter()
            .find(|(key, _)| key == name)
            .map_or(&Json::Null, |(_, value)| value)
    }

    pub fn text(&self) -> &str {
        if let Json::Text(text) = self {
            text
        } else {
            ""
        }
    }

    pub fn items(&self) -> &[Json] {
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
