//! The header of a file: its length, and JSON that says what the bytes behind
//! it are.

use std::collections::BTreeMap;

use serde_json::json;

use crate::io::format::{self, LONGEST};
use crate::io::json::Json;
use crate::io::state_dict::METADATA;

/// Bytes of the header's length.
const LENGTH: usize = 8;

/// What a header says of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    pub name: String,
    /// The format's name of its type.
    pub dtype: String,
    pub dims: Vec<usize>,
    /// Where its bytes are, from the end of the header on.
    pub start: usize,
    pub end: usize,
}

/// What a header says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    /// Text by name.
    pub metadata: BTreeMap<String, String>,
    /// The tensors, in the order of their bytes, which are contiguous.
    pub tensors: Vec<TensorInfo>,
}

impl Header {
    /// The header of a file, and where the data behind it begin.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(file: &[u8]) -> Result<(Header, usize), String> {
        let data = Header::extent(file, file.len())?;
        Ok((Header::parse(&file[LENGTH..data])?, data))
    }

    /// Where the data of a file of `size` bytes begin, by its first 8.
    ///
    /// # Errors
    /// Fewer bytes than the header takes.
    pub fn extent(start: &[u8], size: usize) -> Result<usize, String> {
        let short = || format!("{size} bytes are too few to hold the header");
        let length = u64::from_le_bytes(*start.first_chunk::<LENGTH>().ok_or_else(short)?);
        let rest = size - LENGTH;
        let known = usize::try_from(length).ok().filter(|&length| length <= LONGEST.min(rest));
        let wrong = || format!("the header is said to be of {length} bytes, and {rest} are there");
        known.map(|length| LENGTH + length).ok_or_else(wrong)
    }

    fn parse(text: &[u8]) -> Result<Header, String> {
        let json = Json::parse(text).map_err(|error| format!("the header is damaged: {error}"))?;
        let entries = json.map().ok_or("the header is damaged: expected an object")?;
        let mut header = Header::default();
        for (name, entry) in entries {
            if name == METADATA {
                header.metadata = texts(entry)?;
            } else {
                header.tensors.push(tensor(name, entry).map_err(|error| format!("{name}: {error}"))?);
            }
        }
        header.tensors.sort_by_key(|info| (info.start, info.end));
        let mut end = 0;
        for info in &header.tensors {
            if info.start != end {
                let (name, start) = (&info.name, info.start);
                return Err(format!(
                    "{name}: expected its data at byte {end}, where others end, not {start}"
                ));
            }
            end = info.end;
        }
        Ok(header)
    }

    /// Bytes of all tensors.
    pub fn data_len(&self) -> usize {
        self.tensors.last().map_or(0, |info| info.end)
    }

    /// The beginning of a file: the length, and the header padded with spaces,
    /// so that data begin at a multiple of 8.
    ///
    /// # Errors
    /// A header that no library would read.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let mut entries = Vec::new();
        if !self.metadata.is_empty() {
            entries.push(format!("{}:{}", json!(METADATA), json!(self.metadata)));
        }
        for info in &self.tensors {
            entries.push(format!(
                r#"{}:{{"dtype":{},"shape":{},"data_offsets":[{},{}]}}"#,
                json!(info.name),
                json!(info.dtype),
                json!(info.dims),
                info.start,
                info.end
            ));
        }
        let mut text = format!("{{{}}}", entries.join(",")).into_bytes();
        text.resize(text.len().next_multiple_of(LENGTH), b' ');
        if text.len() > LONGEST {
            return Err(format!("expected a header of at most {LONGEST} bytes, found {}", text.len()));
        }
        Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
    }
}

fn texts(entry: &Json) -> Result<BTreeMap<String, String>, String> {
    let expected = || format!("{METADATA}: expected an object of strings");
    let text = |(name, value): (&String, &Json)| Some((name.clone(), value.text()?.to_string()));
    entry.map().and_then(|map| map.iter().map(text).collect()).ok_or_else(expected)
}

fn tensor(name: &str, entry: &Json) -> Result<TensorInfo, String> {
    let dtype = entry.get("dtype").and_then(Json::text).ok_or("expected a string under \"dtype\"")?;
    let sizes = |key| {
        let sizes = entry.get(key).and_then(Json::sizes);
        sizes.ok_or_else(|| format!("expected sizes under {key:?}"))
    };
    let dims = sizes("shape")?;
    let (start, end) = match sizes("data_offsets")?[..] {
        [start, end] if start <= end => (start, end),
        _ => return Err("expected a beginning and an end under \"data_offsets\"".into()),
    };
    format::check(dtype, &dims, end - start)?;
    Ok(TensorInfo { name: name.into(), dtype: dtype.into(), dims, start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Header, String> {
        Header::parse(text.as_bytes())
    }

    #[test]
    fn a_header_comes_back() {
        let info = |name: &str, dtype: &str, dims: &[usize], start, end| TensorInfo {
            name: name.into(),
            dtype: dtype.into(),
            dims: dims.into(),
            start,
            end,
        };
        let tensors = vec![info("a\"\u{1}é", "F32", &[2, 3], 0, 24), info("", "NEW", &[], 24, 25)];
        let metadata = BTreeMap::from([("format".to_string(), "pt\n".to_string())]);
        let header = Header { metadata, tensors };
        let bytes = header.to_bytes().unwrap();
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(Header::read(&bytes), Ok((header, bytes.len())));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let cases = [
            ("[]", "expected an object"),
            (r#"{"__metadata__": {"a": 1}}"#, "expected an object of strings"),
            (r#"{"a": 1}"#, "a: expected a string under \"dtype\""),
            (r#"{"a": {"dtype": "F32", "shape": [-1]}}"#, "a: expected sizes under \"shape\""),
            (r#"{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}"#, "a beginning and an end"),
            (r#"{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4]}}"#, "a beginning and an end"),
            (r#"{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}"#, "data at byte 0"),
            (r#"{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 2]}}"#, "takes 4 bytes"),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let mut file = u64::MAX.to_le_bytes().to_vec();
        file.extend(b"{}");
        let error = Header::read(&file).unwrap_err();
        assert!(error.contains("said to be of 18446744073709551615 bytes, and 2 are there"), "{error}");
    }
}
