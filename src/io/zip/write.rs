//! Writing of archives whose files are stored and begin at multiples of 64 bytes, so that they can
//! be mapped.

use std::borrow::Cow;

use crate::io::zip::{CENTRAL, END, END_64, EXTRA_64, LOCAL, LOCATOR_64, SEE_EXTRA};

/// Where files begin.
const ALIGNMENT: usize = 64;
/// The version of the format that has sizes of 64 bits.
const VERSION: u16 = 45;
/// An extra field without meaning, of zeros.
const PADDING: u16 = 0xd935;
/// 1980-01-01: archives of the same files are the same.
const DATE: u16 = 0x21;

/// The parts of an archive of these files, each itself in parts.
pub fn archive<'a>(files: Vec<(String, Vec<Cow<'a, [u8]>>)>) -> Vec<Cow<'a, [u8]>> {
    let mut parts: Vec<Cow<[u8]>> = Vec::new();
    let mut directory = Vec::new();
    let (mut offset, count) = (0usize, files.len());
    for (name, content) in files {
        let size: usize = content.iter().map(|part| part.len()).sum();
        let crc = !content.iter().fold(!0, |crc, part| crc_of(crc, part));
        let local = local_header(&name, size, crc, offset);
        directory.extend(central_header(&name, size, crc, offset));
        offset += local.len() + size;
        parts.push(Cow::Owned(local));
        parts.extend(content);
    }
    let end = end_of_directory(count, directory.len(), offset);
    parts.push(Cow::Owned(directory));
    parts.push(Cow::Owned(end));
    parts
}

/// What both headers of a file have: version, flags (names are UTF-8), method, time, and sizes.
fn common(crc: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    [VERSION, 1 << 11, 0, 0, DATE].iter().for_each(|field| bytes.extend(field.to_le_bytes()));
    [crc, SEE_EXTRA, SEE_EXTRA].iter().for_each(|field| bytes.extend(field.to_le_bytes()));
    bytes
}

fn local_header(name: &str, size: usize, crc: u32, offset: usize) -> Vec<u8> {
    let mut header = [&LOCAL[..], &common(crc)].concat();
    let mut extra = extra_field(EXTRA_64, &wide(&[size, size]));
    let before = offset + 30 + name.len() + extra.len() + 4;
    extra.extend(extra_field(PADDING, &vec![0; before.next_multiple_of(ALIGNMENT) - before]));
    header.extend((name.len() as u16).to_le_bytes());
    header.extend((extra.len() as u16).to_le_bytes());
    header.extend(name.as_bytes());
    header.extend(extra);
    header
}

fn central_header(name: &str, size: usize, crc: u32, offset: usize) -> Vec<u8> {
    let mut header = [&CENTRAL[..], &VERSION.to_le_bytes(), &common(crc)].concat();
    let extra = extra_field(EXTRA_64, &wide(&[size, size, offset]));
    // Behind the lengths: comment, volume and attributes of 2, 2, 2 and 4 bytes.
    header.extend((name.len() as u16).to_le_bytes());
    header.extend((extra.len() as u16).to_le_bytes());
    header.extend([0; 10]);
    header.extend(SEE_EXTRA.to_le_bytes());
    header.extend(name.as_bytes());
    header.extend(extra);
    header
}

fn end_of_directory(count: usize, bytes: usize, start: usize) -> Vec<u8> {
    let mut end = [&END_64[..], &44u64.to_le_bytes()].concat();
    end.extend([VERSION.to_le_bytes(), VERSION.to_le_bytes()].concat());
    end.extend([0; 8]);
    end.extend(wide(&[count, count, bytes, start]));
    end.extend(LOCATOR_64);
    end.extend([0; 4]);
    end.extend(wide(&[start + bytes]));
    end.extend(1u32.to_le_bytes());
    end.extend(END);
    end.extend([0; 4]);
    end.extend([0xff; 12]);
    end.extend([0; 2]);
    end
}

fn extra_field(id: u16, content: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes()[..], &(content.len() as u16).to_le_bytes(), content].concat()
}

fn wide(sizes: &[usize]) -> Vec<u8> {
    sizes.iter().flat_map(|&size| (size as u64).to_le_bytes()).collect()
}

/// The remainders of each byte by the polynomial of CRC-32, its bits reversed.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut remainder, mut bit) = (byte as u32, 0);
        while bit < 8 {
            remainder = if remainder & 1 == 1 { remainder >> 1 ^ 0xedb8_8320 } else { remainder >> 1 };
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
};

/// The checksum of bytes behind others of a checksum, both not complemented.
fn crc_of(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, &byte| TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::zip::entries;

    #[test]
    fn what_is_written_is_read_and_lies_aligned() {
        assert_eq!(!crc_of(!0, b"123456789"), 0xcbf4_3926, "the checksum of its definition");
        let content = |text: &'static str| vec![Cow::Borrowed(text.as_bytes()), Cow::Borrowed(&b"."[..])];
        let files = vec![("a.npy".to_string(), content("one")), ("b/é".to_string(), content(""))];
        let file = archive(files).concat();
        let entries = entries(&file).unwrap();
        let read: Vec<_> = entries.iter().map(|e| (&e.name[..], &file[e.start..e.end])).collect();
        assert_eq!(read, [("a.npy", &b"one."[..]), ("b/é", b".")]);
        assert!(entries.iter().all(|entry| entry.start % 64 == 0 && entry.inflated.is_none()));
    }
}
