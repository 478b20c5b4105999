//! Values of a GGUF file's metadata.

use std::fmt;

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The types are the format's own.
pub enum GgufValue {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Text(String),
    /// Values of one type, which is that of the first.
    List(Vec<GgufValue>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl GgufValue {
    /// The number of its type in files.
    pub(super) fn id(&self) -> u32 {
        match self {
            GgufValue::U8(_) => 0,
            GgufValue::I8(_) => 1,
            GgufValue::U16(_) => 2,
            GgufValue::I16(_) => 3,
            GgufValue::U32(_) => 4,
            GgufValue::I32(_) => 5,
            GgufValue::F32(_) => 6,
            GgufValue::Bool(_) => 7,
            GgufValue::Text(_) => 8,
            GgufValue::List(_) => 9,
            GgufValue::U64(_) => 10,
            GgufValue::I64(_) => 11,
            GgufValue::F64(_) => 12,
        }
    }

    /// An integer of any type, if it is one and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            GgufValue::U8(value) => Some(value.into()),
            GgufValue::U16(value) => Some(value.into()),
            GgufValue::U32(value) => Some(value.into()),
            GgufValue::U64(value) => Some(value),
            GgufValue::I8(value) => value.try_into().ok(),
            GgufValue::I16(value) => value.try_into().ok(),
            GgufValue::I32(value) => value.try_into().ok(),
            GgufValue::I64(value) => value.try_into().ok(),
            GgufValue::F32(_) | GgufValue::F64(_) | GgufValue::Bool(_) => None,
            GgufValue::Text(_) | GgufValue::List(_) => None,
        }
    }
    /// The number, of either width.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            GgufValue::F32(value) => Some(value.into()),
            GgufValue::F64(value) => Some(value),
            _ => None,
        }
    }
    /// The text.
    pub fn as_text(&self) -> Option<&str> {
        if let GgufValue::Text(text) = self { Some(text) } else { None }
    }
    /// The values of a list.
    pub fn as_list(&self) -> Option<&[GgufValue]> {
        if let GgufValue::List(list) = self { Some(list) } else { None }
    }
}

impl From<&str> for GgufValue {
    fn from(text: &str) -> GgufValue {
        GgufValue::Text(text.into())
    }
}

impl fmt::Display for GgufValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GgufValue::U8(value) => value.fmt(f),
            GgufValue::I8(value) => value.fmt(f),
            GgufValue::U16(value) => value.fmt(f),
            GgufValue::I16(value) => value.fmt(f),
            GgufValue::U32(value) => value.fmt(f),
            GgufValue::I32(value) => value.fmt(f),
            GgufValue::F32(value) => value.fmt(f),
            GgufValue::Bool(value) => value.fmt(f),
            GgufValue::Text(text) => f.write_str(text),
            GgufValue::List(list) => write!(f, "{} values", list.len()),
            GgufValue::U64(value) => value.fmt(f),
            GgufValue::I64(value) => value.fmt(f),
            GgufValue::F64(value) => value.fmt(f),
        }
    }
}
