//! Whether all ranks have built the same model.

use crate::base::{Error, Result, Span};
use crate::dist::group::Group;
use crate::dist::texts::texts;

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
    let texts = texts(group, lines.join("\n"), span)?;
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
