//! The header of a `.npy` file: a Python dictionary of type, order and shape.

/// What a header says.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The safetensors format's name of the type.
    pub dtype: &'static str,
    /// Whether the bytes of each element are in the other order.
    pub big_endian: bool,
    /// Whether the first axis is the one whose elements are neighbours.
    pub fortran_order: bool,
    pub dims: Vec<usize>,
    /// Where the data begin.
    pub data: usize,
}

pub const MAGIC: &[u8] = b"\x93NUMPY";
/// Data begin at a multiple of this.
const ALIGNMENT: usize = 64;

/// NumPy's kinds and sizes of elements, and their names in safetensors files. NumPy has no `BF16`; the
/// package `ml_dtypes`, which adds it, saves it as two bytes without meaning.
const TYPES: [(&str, &str); 16] = [
    ("b1", "BOOL"),
    ("u1", "U8"),
    ("i1", "I8"),
    ("u2", "U16"),
    ("i2", "I16"),
    ("f2", "F16"),
    ("V2", "BF16"),
    ("u4", "U32"),
    ("i4", "I32"),
    ("f4", "F32"),
    ("c8", "C64"),
    ("u8", "U64"),
    ("i8", "I64"),
    ("f8", "F64"),
    ("?", "BOOL"),
    ("B", "U8"),
];

impl Header {
    /// The header of a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(file: &[u8]) -> Result<Header, String> {
        const SHORT: &str = "the header is cut short";
        let rest = file.strip_prefix(MAGIC).ok_or("it does not begin as a .npy file")?;
        let (version, rest) = rest.split_first_chunk::<2>().ok_or(SHORT)?;
        let (length, rest) = match version {
            [1, _] => {
                let (length, rest) = rest.split_first_chunk().ok_or(SHORT)?;
                (usize::from(u16::from_le_bytes(*length)), rest)
            }
            [2 | 3, _] => {
                let (length, rest) = rest.split_first_chunk().ok_or(SHORT)?;
                (u32::from_le_bytes(*length) as usize, rest)
            }
            [major, minor] => return Err(format!("expected version 1, 2 or 3, found {major}.{minor}")),
        };
        let text = rest.get(..length).ok_or(SHORT)?;
        let text = std::str::from_utf8(text).map_err(|_| "the header is not text")?;
        let data = file.len() - rest.len() + length;
        parse(text, data)
            .ok_or_else(|| format!("expected type, order and shape in the header, found {text:?}"))?
    }

    /// The bytes of a header, behind which a contiguous tensor's begin.
    pub fn to_bytes(dtype: &str, dims: &[usize]) -> Option<Vec<u8>> {
        let (kind, _) = TYPES.iter().find(|(_, name)| *name == dtype)?;
        let order = if kind.ends_with('1') || kind.starts_with('V') { '|' } else { '<' };
        let extents: String = dims.iter().map(|extent| format!("{extent}, ")).collect();
        let shape = if dims.len() == 1 { extents.trim_end() } else { extents.trim_end_matches(", ") };
        let mut text = format!("{{'descr': '{order}{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
        let length = (MAGIC.len() + 4 + text.len() + 1).next_multiple_of(ALIGNMENT) - MAGIC.len() - 4;
        text.extend(std::iter::repeat_n(' ', length - 1 - text.len()));
        text.push('\n');
        let length = (length as u16).to_le_bytes();
        Some([MAGIC, &[1, 0], &length, text.as_bytes()].concat())
    }
}

/// The value behind a key, from its first character on.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let quoted = ['\'', '"'].map(|quote| format!("{quote}{key}{quote}"));
    let (at, len) = quoted.iter().find_map(|key| Some((text.find(&key[..])?, key.len())))?;
    Some(text[at + len..].trim_start().strip_prefix(':')?.trim_start())
}

/// What a dictionary says; `None` where something is not there.
fn parse(text: &str, data: usize) -> Option<Result<Header, String>> {
    let descr = value(text, "descr")?;
    let Some(quote) = descr.chars().next().filter(|first| matches!(first, '\'' | '"')) else {
        return Some(Err("expected elements of one number, found a structure".into()));
    };
    let descr = descr[1..].split(quote).next()?;
    let fortran_order = match value(text, "fortran_order")? {
        order if order.starts_with("True") => true,
        order if order.starts_with("False") => false,
        _ => return None,
    };
    let shape = value(text, "shape")?.strip_prefix('(')?.split(')').next()?;
    let extents = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let dims =
        extents.map(|extent| extent.trim_end_matches('L').parse().ok()).collect::<Option<Vec<usize>>>()?;
    let kind = descr.trim_start_matches(['<', '>', '|', '=']);
    let Some((_, dtype)) = TYPES.iter().find(|(known, _)| *known == kind) else {
        return Some(Err(format!("expected numbers or truth values, found the type {descr:?}")));
    };
    Some(Ok(Header { dtype, big_endian: descr.starts_with('>'), fortran_order, dims, data }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_as_numpy_writes_it_and_comes_back() {
        let bytes = Header::to_bytes("F32", &[3]).unwrap();
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
        assert!(bytes.len() == 128 && bytes[..10] == *b"\x93NUMPY\x01\0v\0" && bytes.ends_with(b" \n"));
        assert_eq!(&bytes[10..10 + text.len()], text.as_bytes());
        for dims in [&[][..], &[3], &[2, 0, 5]] {
            let bytes = Header::to_bytes("BOOL", dims).unwrap();
            let header = Header::read(&bytes).unwrap();
            assert_eq!((header.dtype, &header.dims[..], header.data), ("BOOL", dims, bytes.len()));
        }
        assert_eq!(Header::to_bytes("Q8_0", &[1]), None);
    }

    #[test]
    fn what_is_not_an_array_of_numbers_is_refused() {
        let read = |text: &str| {
            let length = (text.len() as u32).to_le_bytes();
            Header::read(&[MAGIC, &[2, 0], &length, text.as_bytes()].concat())
        };
        let header = |descr: &str| format!("{{'descr': {descr}, 'fortran_order': True, 'shape': (2L, 3), }}");
        let found = read(&header("'>i2'")).unwrap();
        assert_eq!(
            (found.dtype, found.big_endian, found.fortran_order, found.dims),
            ("I16", true, true, vec![2, 3])
        );
        assert!(read(&header("'|O'")).unwrap_err().contains("found the type \"|O\""));
        assert!(read(&header("[('a', '<f4')]")).unwrap_err().contains("a structure"));
        assert!(read("{'descr': '<f4'}").unwrap_err().contains("expected type, order and shape"));
        assert!(Header::read(b"\x93NUMPY\x09\0").unwrap_err().contains("found 9.0"));
    }
}
