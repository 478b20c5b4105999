//! JSON whose objects name nothing twice.

use std::collections::BTreeMap;
use std::fmt;

use serde_core::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A value, as far as headers and indices need one. Nesting is limited by the
/// parser.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// An object.
    Map(BTreeMap<String, Json>),
    /// An array.
    List(Vec<Json>),
    /// A string.
    Text(String),
    /// An integer that is not negative.
    Number(u64),
    /// Anything else.
    Other,
}

impl Json {
    /// The value of a text.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &[u8]) -> Result<Json, String> {
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }

    /// What an object has under a name.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.map().and_then(|map| map.get(name))
    }
    /// The entries of an object.
    pub fn map(&self) -> Option<&BTreeMap<String, Json>> {
        if let Json::Map(map) = self { Some(map) } else { None }
    }
    /// The characters of a string.
    pub fn text(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }
    /// The numbers of an array that holds nothing else.
    pub fn sizes(&self) -> Option<Vec<usize>> {
        let size = |value: &Json| match value {
            Json::Number(number) => usize::try_from(*number).ok(),
            Json::Map(_) | Json::List(_) | Json::Text(_) | Json::Other => None,
        };
        if let Json::List(list) = self { list.iter().map(size).collect() } else { None }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Other)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Other)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Other)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }
    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number))
    }
    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.into()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut values = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if values.contains_key(&name) {
                return Err(Error::custom(format_args!("{name:?} is named twice")));
            }
            values.insert(name, map.next_value()?);
        }
        Ok(Json::Map(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_once_at_any_depth() {
        let json = Json::parse(br#"{"a": [1, 2], "b": {"a": "x", "c": null}}"#).unwrap();
        assert_eq!(json.get("a").and_then(Json::sizes), Some(vec![1, 2]));
        assert_eq!(json.get("b").and_then(|b| b.get("a")?.text()), Some("x"));
        for twice in [r#"{"a": 1, "a": 1}"#, r#"[{"b": {"\u0061": 1, "a": 2}}]"#] {
            let error = Json::parse(twice.as_bytes()).unwrap_err();
            assert!(error.contains("\"a\" is named twice"), "{error}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_none() {
        for text in ["[-1]", "[1.0]", "[1e3]", "[18446744073709551616]", "[\"1\"]", "[[1]]", "[null]", "1"] {
            assert_eq!(Json::parse(text.as_bytes()).unwrap().sizes(), None, "{text}");
        }
        assert!(Json::parse("[".repeat(200_000).as_bytes()).is_err());
    }
}
