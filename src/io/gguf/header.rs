//! What stands before the tensors of a GGUF file: metadata, and of each tensor name, shape, format and
//! place.

use crate::io::gguf::value::GgufValue;

/// Multiples of this many bytes are where tensors begin, unless the metadata say another number.
pub const ALIGNMENT: u64 = 32;
/// Under which name they say so.
pub const ALIGNMENT_KEY: &str = "general.alignment";
/// The version that is written; version 2 differs in nothing that is read.
pub const VERSION: u32 = 3;
/// Lists in lists, at most so deep.
const DEEPEST: usize = 8;

/// What a file says of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    pub name: String,
    /// Row-major, the last axis first in the file.
    pub dims: Vec<usize>,
    /// The number of its format.
    pub format: u32,
    /// Where it begins, from the end of the header on.
    pub offset: usize,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    pub metadata: Vec<(String, GgufValue)>,
    pub tensors: Vec<TensorInfo>,
    /// Where the data begin.
    pub data: usize,
}

/// The bytes that are left. What is claimed of their number is believed only as far as they are there.
struct Bytes<'a> {
    left: &'a [u8],
}

/// What is wrong with a header.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Flaw {
    #[error("the header is cut short")]
    Short,
    #[error("{0}")]
    Wrong(String),
}

impl Flaw {
    /// The same, of a part with a name.
    fn of(self, name: &str) -> Flaw {
        match self {
            Flaw::Short => Flaw::Short,
            Flaw::Wrong(text) => Flaw::Wrong(format!("{name}: {text}")),
        }
    }
}

type Read<T> = Result<T, Flaw>;

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(count).ok_or(Flaw::Short)?;
        self.left = left;
        Ok(taken)
    }
    fn number<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (number, left) = self.left.split_first_chunk().ok_or(Flaw::Short)?;
        self.left = left;
        Ok(*number)
    }
    fn u32(&mut self) -> Read<u32> {
        self.number().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Read<u64> {
        self.number().map(u64::from_le_bytes)
    }
    fn size(&mut self) -> Read<usize> {
        let size = self.u64()?;
        usize::try_from(size).map_err(|_| Flaw::Wrong(format!("{size} is larger than any size")))
    }
    fn text(&mut self) -> Read<String> {
        let length = self.size()?;
        // Vocabularies of old models have pieces of characters.
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn value(&mut self, id: u32, depth: usize) -> Read<GgufValue> {
        Ok(match id {
            0 => GgufValue::U8(self.number::<1>()?[0]),
            1 => GgufValue::I8(self.number::<1>()?[0] as i8),
            2 => GgufValue::U16(u16::from_le_bytes(self.number()?)),
            3 => GgufValue::I16(i16::from_le_bytes(self.number()?)),
            4 => GgufValue::U32(self.u32()?),
            5 => GgufValue::I32(i32::from_le_bytes(self.number()?)),
            6 => GgufValue::F32(f32::from_le_bytes(self.number()?)),
            7 => GgufValue::Bool(self.number::<1>()?[0] != 0),
            8 => GgufValue::Text(self.text()?),
            9 if depth < DEEPEST => GgufValue::List(self.list(depth)?),
            10 => GgufValue::U64(self.u64()?),
            11 => GgufValue::I64(i64::from_le_bytes(self.number()?)),
            12 => GgufValue::F64(f64::from_le_bytes(self.number()?)),
            _ => return Err(Flaw::Wrong(format!("expected a type of value from 0 to 12, found {id}"))),
        })
    }

    fn list(&mut self, depth: usize) -> Read<Vec<GgufValue>> {
        let (id, count) = (self.u32()?, self.size()?);
        // Every value takes a byte at least, so a count that lies ends soon.
        (0..count).map(|_| self.value(id, depth + 1)).collect()
    }

    fn tensor(&mut self) -> Read<TensorInfo> {
        let (name, rank) = (self.text()?, self.u32()?);
        let mut dims = (0..rank).map(|_| self.size()).collect::<Read<Vec<usize>>>()?;
        dims.reverse();
        let (format, offset) = (self.u32()?, self.size()?);
        Ok(TensorInfo { name, dims, format, offset })
    }
}

impl Header {
    /// The header of a file, by its first bytes.
    ///
    /// # Errors
    /// What is wrong with it; that there are too few bytes.
    pub fn read(file: &[u8]) -> Result<Header, Flaw> {
        let other = || Flaw::Wrong("it does not begin with GGUF".into());
        let mut bytes = Bytes { left: file.strip_prefix(b"GGUF").ok_or_else(other)? };
        match bytes.u32()? {
            2 | VERSION => {}
            version if version.swap_bytes() <= VERSION => return Err(Flaw::Wrong("it is big-endian".into())),
            version => return Err(Flaw::Wrong(format!("expected version 2 or 3, found {version}"))),
        }
        let (tensors, entries) = (bytes.size()?, bytes.size()?);
        let mut header = Header::default();
        for _ in 0..entries {
            let (key, id) = (bytes.text()?, bytes.u32()?);
            let value = bytes.value(id, 0).map_err(|error| error.of(&key))?;
            header.metadata.push((key, value));
        }
        for _ in 0..tensors {
            header.tensors.push(bytes.tensor()?);
        }
        let end = file.len() - bytes.left.len();
        header.data = end.next_multiple_of(header.alignment().map_err(Flaw::Wrong)?);
        Ok(header)
    }

    pub fn alignment(&self) -> Result<usize, String> {
        let found = self.metadata.iter().find(|(key, _)| key == ALIGNMENT_KEY);
        let alignment = found.map_or(Some(ALIGNMENT), |(_, value)| value.as_u64());
        let alignment = alignment.filter(|alignment| alignment.is_power_of_two() && *alignment <= 1 << 20);
        alignment.map(|alignment| alignment as usize).ok_or("expected a power of two as alignment".into())
    }

    /// The bytes of a header.
    ///
    /// # Errors
    /// Lists of several types, and an alignment that is none.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let mut bytes = [&b"GGUF"[..], &VERSION.to_le_bytes()].concat();
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            put_text(&mut bytes, key);
            bytes.extend(value.id().to_le_bytes());
            put(&mut bytes, value).map_err(|error| format!("{key}: {error}"))?;
        }
        for info in &self.tensors {
            put_text(&mut bytes, &info.name);
            bytes.extend((info.dims.len() as u32).to_le_bytes());
            info.dims.iter().rev().for_each(|&extent| bytes.extend((extent as u64).to_le_bytes()));
            bytes.extend(info.format.to_le_bytes());
            bytes.extend((info.offset as u64).to_le_bytes());
        }
        bytes.resize(bytes.len().next_multiple_of(self.alignment()?), 0);
        Ok(bytes)
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn put(bytes: &mut Vec<u8>, value: &GgufValue) -> Result<(), String> {
    match value {
        GgufValue::U8(value) => bytes.push(*value),
        GgufValue::I8(value) => bytes.push(*value as u8),
        GgufValue::U16(value) => bytes.extend(value.to_le_bytes()),
        GgufValue::I16(value) => bytes.extend(value.to_le_bytes()),
        GgufValue::U32(value) => bytes.extend(value.to_le_bytes()),
        GgufValue::I32(value) => bytes.extend(value.to_le_bytes()),
        GgufValue::F32(value) => bytes.extend(value.to_le_bytes()),
        GgufValue::Bool(value) => bytes.push(u8::from(*value)),
        GgufValue::Text(text) => put_text(bytes, text),
        GgufValue::U64(value) => bytes.extend(value.to_le_bytes()),
        GgufValue::I64(value) => bytes.extend(value.to_le_bytes()),
        GgufValue::F64(value) => bytes.extend(value.to_le_bytes()),
        GgufValue::List(list) => {
            let id = list.first().map_or(0, GgufValue::id);
            if list.iter().any(|value| value.id() != id) {
                return Err("expected values of one type in a list".into());
            }
            bytes.extend(id.to_le_bytes());
            bytes.extend((list.len() as u64).to_le_bytes());
            list.iter().try_for_each(|value| put(bytes, value))?;
        }
    }
    Ok(())
}
