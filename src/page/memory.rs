//! The blocks of a plan's memory as JSON.

use crate::page::texts::Texts;
use crate::plan::report::MemoryBlock;
use crate::profile::json::{Object, list, optional};

/// A block.
pub(super) fn json(block: &MemoryBlock, texts: &mut Texts) -> Object {
    Object::new()
        .text("device", &block.device.to_string())
        .text("kind", &block.kind.to_string())
        .text("name", &block.name)
        .text("label", block.label.as_deref().unwrap_or_default())
        .value("line", optional(block.at.map(|at| texts.line(at))))
        .text("type", &block.ty.as_ref().map(ToString::to_string).unwrap_or_default())
        .value("bytes", block.bytes)
        .value("first", block.first)
        .value("last", block.last)
        .value("offset", optional(block.offset))
        .value("parts", list(block.parts.iter().map(|part| json(part, texts).end()).collect::<Vec<_>>()))
}
