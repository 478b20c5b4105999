//! Writing JSON.

use std::fmt::Write;

pub(crate) use crate::plan::history::quoted;

/// An object on the way. Names are written as they are: they hold nothing to escape.
#[derive(Debug)]
pub struct Object(String);

impl Object {
    /// Without fields.
    pub fn new() -> Object {
        Object("{".into())
    }

    fn name(&mut self, name: &str) {
        let separator = if self.0.len() > 1 { ", " } else { "" };
        let _ = write!(self.0, "{separator}\"{name}\": ");
    }

    /// With a text.
    pub fn text(mut self, name: &str, text: &str) -> Object {
        self.name(name);
        self.0 += &quoted(text);
        self
    }

    /// With a number, or what writes itself as JSON does.
    pub fn value(mut self, name: &str, value: impl std::fmt::Display) -> Object {
        self.name(name);
        let _ = write!(self.0, "{value}");
        self
    }

    /// With a value under a name that may hold anything.
    pub fn named(self, name: &str, value: impl std::fmt::Display) -> Object {
        let quoted = quoted(name);
        self.value(&quoted[1..quoted.len() - 1], value)
    }

    /// With a number of which the finite ones are JSON's; 0 for the others.
    pub fn float(self, name: &str, number: f64) -> Object {
        self.value(name, if number.is_finite() { number } else { 0.0 })
    }

    /// With an object.
    pub fn object(self, name: &str, object: Object) -> Object {
        self.value(name, object.end())
    }

    /// Its text, as it stands.
    pub fn text_so_far(&self) -> String {
        self.0.clone() + "}"
    }

    /// Its text.
    pub fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// A list of what writes itself as JSON does.
pub fn list(items: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// Either a number or `null`.
pub fn optional(value: Option<impl std::fmt::Display>) -> String {
    value.map_or("null".into(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_fields_separated() {
        let inner = Object::new().value("n", 3);
        let object = Object::new().text("a", "\"b\\\n").object("c", inner).float("d", f64::NAN);
        assert_eq!(object.end(), r#"{"a": "\"b\\\u000a", "c": {"n": 3}, "d": 0}"#);
        assert_eq!(Object::new().end(), "{}");
        assert_eq!(list([1, 2]), "[1, 2]");
        assert_eq!((optional(Some(3)), optional(None::<u8>)), ("3".into(), "null".into()));
    }
}
