//! Texts of all ranks.

use crate::base::{DType, Device, Result, Span};
use crate::dist::group::Group;
use crate::ir::Type;
use crate::ir::collective::{Channel, CollectiveKind};

/// What each rank says, by rank.
///
/// # Errors
/// [`Error::Collective`](crate::Error::Collective).
pub(super) fn texts(group: &Group, own: String, span: Span) -> Result<Vec<String>> {
    let lengths = gather(group, &(own.len() as u64).to_le_bytes(), span)?;
    let length =
        |bytes: &Vec<u8>| bytes.iter().rev().fold(0u64, |length, &byte| length << 8 | u64::from(byte));
    let lengths: Vec<usize> = lengths.iter().map(|bytes| length(bytes) as usize).collect();
    let mut padded = own.into_bytes();
    padded.resize(lengths.iter().copied().max().unwrap_or(0), 0);
    let texts = gather(group, &padded, span)?;
    let text = |(text, &length): (&Vec<u8>, &usize)| {
        String::from_utf8_lossy(&text[..length.min(text.len())]).into_owned()
    };
    Ok(texts.iter().zip(&lengths).map(text).collect())
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
