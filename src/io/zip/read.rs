//! The directory of an archive.

use crate::io::zip::{CENTRAL, END, END_64, EXTRA_64, LOCAL, LOCATOR_64, SEE_EXTRA};

/// A file in an archive.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: String,
    /// Where its bytes are in the archive.
    pub start: usize,
    pub end: usize,
    /// Whether they are deflated, to how many.
    pub inflated: Option<usize>,
}

/// Bytes of the end of the directory, and of the longest comment behind it.
const END_BYTES: usize = 22;
const LONGEST_COMMENT: usize = 0xffff;
/// Deflate makes at most so many bytes of one.
const MOST_INFLATED: usize = 1032;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes([pair[0], pair[1]]))
}
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    let size = bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
    usize::try_from(size).ok()
}

/// The files of an archive, in the order of its directory.
///
/// # Errors
/// What is wrong with it.
pub fn entries(file: &[u8]) -> Result<Vec<Entry>, String> {
    let mut directory = directory(file).ok_or("it is cut short: a zip archive ends with its directory")?;
    let mut entries: Vec<Entry> = Vec::new();
    while directory.starts_with(&CENTRAL) {
        let (entry, rest) = entry(file, directory)?;
        entries.push(entry);
        directory = rest;
    }
    let mut names: Vec<&str> = entries.iter().map(|entry| &entry.name[..]).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("{} is in it twice", pair[0])),
        None => Ok(entries),
    }
}

/// The bytes of the directory.
fn directory(file: &[u8]) -> Option<&[u8]> {
    let earliest = file.len().saturating_sub(END_BYTES + LONGEST_COMMENT);
    let end =
        (earliest..=file.len().checked_sub(END_BYTES)?).rev().find(|&at| file[at..].starts_with(&END))?;
    let (mut bytes, mut start) = (u32_at(file, end + 12)? as usize, u32_at(file, end + 16)? as usize);
    if let Some(locator) = end.checked_sub(20).filter(|&at| file[at..].starts_with(&LOCATOR_64)) {
        let end = file.get(size_at(file, locator + 8)?..)?;
        if !end.starts_with(&END_64) {
            return None;
        }
        (bytes, start) = (size_at(end, 40)?, size_at(end, 48)?);
    }
    file.get(start..start.checked_add(bytes)?)
}

/// The first entry of a directory, and the directory behind it.
fn entry<'a>(file: &[u8], directory: &'a [u8]) -> Result<(Entry, &'a [u8]), String> {
    const SHORT: &str = "its directory is cut short";
    let fixed = directory.get(..46).ok_or(SHORT)?;
    let length = |at: usize| usize::from(u16_at(fixed, at).unwrap_or(0));
    let (name_end, extra_end) = (46 + length(28), 46 + length(28) + length(30));
    let (name, extra) = directory.get(46..name_end).zip(directory.get(name_end..extra_end)).ok_or(SHORT)?;
    let rest = directory.get(extra_end + length(32)..).ok_or(SHORT)?;
    let name = String::from_utf8_lossy(name).into_owned();
    let entry = place(file, fixed, extra, name.clone()).map_err(|error| format!("{name}: {error}"))?;
    Ok((entry, rest))
}

/// Where the bytes of an entry are.
fn place(file: &[u8], fixed: &[u8], extra: &[u8], name: String) -> Result<Entry, String> {
    let field = |at: usize| u32_at(fixed, at).unwrap_or(0);
    let mut wide = wide_sizes(extra);
    let mut size = |at: usize| match field(at) {
        SEE_EXTRA => wide.next().flatten(),
        size => Some(size as usize),
    };
    let (inflated, stored, local) = (size(24), size(20), size(42));
    let (inflated, stored, local) =
        inflated.zip(stored).zip(local).map(|((a, b), c)| (a, b, c)).ok_or("its sizes are not there")?;
    if field(8) & 1 != 0 {
        return Err("it is encrypted".into());
    }
    let header = file.get(local..).filter(|header| header.starts_with(&LOCAL));
    let lengths = header.and_then(|header| u16_at(header, 26).zip(u16_at(header, 28)));
    let (name_len, extra_len) = lengths.ok_or("its header is not there")?;
    let start = local + 30 + usize::from(name_len) + usize::from(extra_len);
    let end = start.checked_add(stored).filter(|&end| end <= file.len());
    let end = end.ok_or("its data end behind the archive")?;
    let inflated = match u16_at(fixed, 10) {
        Some(0) if inflated == stored => None,
        Some(8) if inflated <= stored.saturating_mul(MOST_INFLATED) => Some(inflated),
        Some(0 | 8) => return Err(format!("{stored} bytes cannot be {inflated}")),
        method => return Err(format!("expected it stored or deflated, found method {method:?}")),
    };
    Ok(Entry { name, start, end, inflated })
}

/// The sizes of 64 bits of an extra field, in order.
fn wide_sizes(mut extra: &[u8]) -> impl Iterator<Item = Option<usize>> {
    let mut sizes: &[u8] = &[];
    while let Some((id, len)) = u16_at(extra, 0).zip(u16_at(extra, 2)) {
        let end = (4 + usize::from(len)).min(extra.len());
        if id == EXTRA_64 {
            sizes = &extra[4..end];
        }
        extra = &extra[end..];
    }
    (0..3).map(move |number| size_at(sizes, number * 8))
}
