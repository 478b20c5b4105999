//! Recognition of file formats by their first bytes.

use crate::io::format::LONGEST;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What it is.
    pub name: &'static str,
    /// How it can be opened, if it can be.
    pub door: Option<&'static str>,
}

/// The kinds that are opened here.
pub const SAFETENSORS: &str = "a safetensors file";
pub const JSON: &str = "a JSON file";
pub const GGUF: &str = "a GGUF file";
pub const NPY: &str = "a NumPy array (.npy)";
pub const NPZ: &str = "a NumPy archive (.npz)";
pub const TORCH: &str = "a PyTorch file (a zip archive with a pickle)";

impl Kind {
    const fn of(name: &'static str) -> Kind {
        Kind { name, door: None }
    }
    const fn by(name: &'static str, door: &'static str) -> Kind {
        Kind { name, door: Some(door) }
    }
}

/// What a file is that is not what it was opened as; `None` for one that
/// nothing is known of.
pub fn kind(file: &[u8]) -> Option<Kind> {
    const OLD: Kind = Kind::by(
        "a PyTorch file of the old kind (a pickle)",
        "PyTorch itself, 1.6 or later, whose torch.save writes one for StateDict::open_torch",
    );
    const KINDS: [(&[u8], Kind); 10] = [
        (b"GGUF", Kind::by(GGUF, "StateDict::open_gguf (feature `gguf`)")),
        (b"\x93NUMPY", Kind::by(NPY, "Tensor::open_npy (feature `npy`)")),
        (b"\x89HDF\r\n\x1a\n", Kind::of("an HDF5 file")),
        (b"\x1f\x8b", Kind::of("a gzip archive")),
        (b"version https://git-lfs", Kind::of("a pointer of Git LFS, in place of the file it stands for")),
        (b"<!DOCTYPE", Kind::of("an HTML page")),
        (b"<html", Kind::of("an HTML page")),
        (b"{", Kind::by(JSON, "StateDict::open (feature `safetensors`) if its name ends in .json")),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19", OLD),
        (b"PK\x05\x06", Kind::of("an empty zip archive")),
    ];
    let known = || KINDS.iter().find(|(start, _)| file.starts_with(start)).map(|&(_, kind)| kind);
    // The length that a safetensors file begins with may look like anything.
    let others = || zip(file).or_else(known).or_else(|| pickle(file)).or_else(|| onnx(file));
    safetensors(file).or_else(others)
}

/// A zip archive, by the name of the first file in it.
fn zip(file: &[u8]) -> Option<Kind> {
    let rest = file.strip_prefix(b"PK\x03\x04")?;
    let length = rest.get(22..24).map_or(0, |pair| usize::from(pair[0]) | usize::from(pair[1]) << 8);
    let name = rest.get(26..26 + length).map_or("".into(), String::from_utf8_lossy);
    if name.ends_with("data.pkl") || name.contains("/.format_version") {
        Some(Kind::by(TORCH, "StateDict::open_torch (feature `torch`)"))
    } else if name.ends_with(".npy") {
        Some(Kind::by(NPZ, "StateDict::open_npz (feature `npy`)"))
    } else {
        Some(Kind::of("a zip archive"))
    }
}

/// Pickles begin with the number of their protocol and end with a stop.
fn pickle(file: &[u8]) -> Option<Kind> {
    matches!(file, [0x80, 2..=5, .., b'.']).then_some(Kind::of("a pickle"))
}

/// A model of ONNX is a protobuf message that begins with the version of its
/// representation, field 1, and continues with another field of the model.
fn onnx(file: &[u8]) -> Option<Kind> {
    /// The fields that follow, each with the kind of its content.
    const NEXT: [u8; 7] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42];
    let [0x08, 1..=0x3f, next, ..] = file else { return None };
    NEXT.contains(next).then_some(Kind::of("an ONNX model"))
}

fn safetensors(file: &[u8]) -> Option<Kind> {
    let (length, rest) = file.split_first_chunk::<8>()?;
    let header = u64::from_le_bytes(*length) <= LONGEST as u64;
    (header && rest.starts_with(b"{"))
        .then_some(Kind::by(SAFETENSORS, "StateDict::open (feature `safetensors`)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_how_files_begin() {
        let zipped = |name: &str| {
            [b"PK\x03\x04", &[0; 22][..], &[name.len() as u8, 0, 0, 0], name.as_bytes()].concat()
        };
        let kind = |file: &[u8]| kind(file).map(|kind| kind.name);
        let zipped = |name: &str| kind(&zipped(name));
        assert_eq!(zipped("archive/data.pkl"), Some("a PyTorch file (a zip archive with a pickle)"));
        assert_eq!(zipped("weight.npy"), Some("a NumPy archive (.npz)"));
        assert_eq!(zipped("notes.txt"), Some("a zip archive"));
        assert_eq!(kind(b"PK\x03\x04"), Some("a zip archive"));
        assert_eq!(kind(b"\x80\x04N."), Some("a pickle"));
        assert_eq!(kind(b"\x08\x08\x12\x07pytorch"), Some("an ONNX model"));
        for whole_or_not in [b"\x02\0\0\0\0\0\0\0{}", b"{\0\0\0\0\0\0\0{}", b"\x08\x08\x12\0\0\0\0\0{}"] {
            assert_eq!(kind(whole_or_not), Some("a safetensors file"));
        }
        for unknown in [&b""[..], b"PK", b"\x08", b"\x80\x02", b"\x08\x08\0\0\0\0\0\0[", b"anything else"] {
            assert_eq!(kind(unknown), None, "{unknown:?}");
        }
    }
}
