//! Whether all ranks have built the same model.

use crate::base::{DType, Device};
use crate::base::{Error, Result, Span};
use crate::dist::group::Group;
use crate::ir::Type;
use crate::ir::collective::{Channel, CollectiveKind};

/// Compares lines of text, such as names with types, with those of the other ranks.
///
/// # Errors
/// On every rank, the first line in which two of them differ.
pub(super) fn agree(
    group: &Group,
    call: &'static str,
    what: &str,
    lines: &[String],
    span: Span,
) -> Result<()> {
    let own = lines.join("\n");
    let lengths = gather(group, &(own.len() as u64).to_le_bytes(), span)?;
    let length =
        |bytes: &Vec<u8>| bytes.iter().rev().fold(0u64, |length, &byte| length << 8 | u64::from(byte));
    let lengths: Vec<usize> = lengths.iter().map(|bytes| length(bytes) as usize).collect();
    let mut padded = own.into_bytes();
    padded.resize(lengths.iter().copied().max().unwrap_or(0), 0);
    let texts = gather(group, &padded, span)?;
    let texts: Vec<String> = texts
        .iter()
        .zip(&lengths)
        .map(|(text, &length)| String::from_utf8_lossy(&text[..length.min(text.len())]).into_owned())
        .collect();
    let Some(rank) = texts.iter().position(|text| *text != texts[0]) else { return Ok(()) };
    let (mut first, mut other) = (texts[0].lines(), texts[rank].lines());
    let (one, two) = loop {
        let pair = (first.next(), other.next());
        if pair.0 != pair.1 || pair.0.is_none() {
            break pair;
        }
    };
    let said = |line: Option<&str>| line.unwrap_or("nothing").to_string();
    let found = format!("{} on rank 0 and {} on rank {rank}", said(one), said(two));
    Err(Error::Argument { call, expected: format!("the same {what} on all ranks"), found, span })
}

/// The bytes of all ranks, equally many of each.
fn gather(group: &Group, bytes: &[u8], span: Span) -> Result<Vec<Vec<u8>>> {
    let ty = Type::new([bytes.len()], DType::U8, Device::cpu());
    let all = group.endpoint().run(CollectiveKind::AllGather, &ty, span, bytes)?;
    let each = bytes.len().max(1);
    let mut parts: Vec<Vec<u8>> = all.chunks(each).map(<[u8]>::to_vec).collect();
    parts.resize(group.size(), Vec::new());
    Ok(parts)
}
