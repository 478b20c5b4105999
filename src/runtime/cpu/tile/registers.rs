//! Register allocation: offsets in scratch memory by live range, so that what is live at once is near.

use crate::runtime::cpu::tile::program::{SlotInfo, SlotStorage, TileShape};

/// A slot's live range, in counted instructions, and how large it is.
#[derive(Clone, Copy, Debug)]
pub struct LiveRange {
    /// The instruction that defines it.
    pub start: u32,
    /// The first instruction that no longer needs it.
    pub end: u32,
    /// How many bodies were open where it was defined.
    pub depth: usize,
    /// Bytes of an element; 0 for what is no register.
    pub bytes: usize,
}

/// Alignment of registers.
const ALIGN: usize = 64;

/// The most bytes that live at once per element of a tile, counting values
/// with an element for each column.
pub fn width(slots: &[SlotInfo], live_ranges: &[LiveRange]) -> usize {
    peak_bytes(slots, live_ranges, |shape| shape.cols())
}

/// The same of values that each row of a tile has, and of those that all rows share.
pub fn widths(slots: &[SlotInfo], live_ranges: &[LiveRange]) -> (usize, usize) {
    (
        peak_bytes(slots, live_ranges, |shape| shape == TileShape::Full),
        peak_bytes(slots, live_ranges, |shape| shape == TileShape::Column),
    )
}

fn peak_bytes(slots: &[SlotInfo], live_ranges: &[LiveRange], counts: impl Fn(TileShape) -> bool) -> usize {
    let wide = slots.iter().zip(live_ranges).filter(|(info, life)| counts(info.shape) && life.bytes > 0);
    let mut events: Vec<(u32, bool, usize)> = Vec::new();
    for (_, life) in wide {
        events.push((life.start, true, life.bytes));
        events.push((life.end, false, life.bytes));
    }
    // At equal times ends come first.
    events.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, begins, bytes) in events {
        if begins {
            now += bytes;
            most = most.max(now);
        } else {
            now -= bytes;
        }
    }
    most
}

/// Gives every register, constant and argument its offset, in tiles of so
/// many rows and columns; returns the bytes of scratch memory.
pub fn allocate(slots: &mut [SlotInfo], live_ranges: &[LiveRange], (rows, cols): (usize, usize)) -> usize {
    let mut top = 0;
    for info in slots.iter_mut() {
        if let SlotStorage::Constant(offset, _) | SlotStorage::Argument(offset, ..) = &mut info.storage {
            *offset = top;
            top += 8;
        }
    }
    top = top.next_multiple_of(ALIGN);
    let mut order: Vec<usize> = (0..slots.len()).filter(|&i| live_ranges[i].bytes > 0).collect();
    order.sort_by_key(|&i| (live_ranges[i].start, i));
    let mut busy: Vec<(u32, usize, usize)> = Vec::new();
    let mut free: Vec<(usize, usize)> = Vec::new();
    for i in order {
        let size =
            (slots[i].shape.count(rows, cols) * live_ranges[i].bytes).next_multiple_of(ALIGN).max(ALIGN);
        busy.retain(|&(end, offset, size)| {
            let over = end <= live_ranges[i].start;
            if over {
                free.push((offset, size));
            }
            !over
        });
        // Of equal size, the one freed last: it is most likely in the cache.
        let fitting = free.iter().rposition(|&(_, room)| room == size);
        let offset = match fitting {
            Some(at) => free.remove(at).0,
            None => {
                top += size;
                top - size
            }
        };
        busy.push((live_ranges[i].end, offset, size));
        slots[i].storage = SlotStorage::Register(offset);
    }
    top
}
