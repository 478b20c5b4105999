//! Places in scratch memory for values, so that what lives at once is near.

use crate::runtime::cpu::tile::program::{Class, Place, SlotInfo};

/// When a slot's value exists, in counted steps, and how large it is.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// The step that defines it.
    pub start: u32,
    /// The first step that no longer needs it.
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
pub fn width(slots: &[SlotInfo], lives: &[Life]) -> usize {
    most(slots, lives, |class| class.cols())
}

/// The same of values that each line of a tile has, and of those that all lines share.
pub fn widths(slots: &[SlotInfo], lives: &[Life]) -> (usize, usize) {
    (most(slots, lives, |class| class == Class::FULL), most(slots, lives, |class| class == Class::COL))
}

fn most(slots: &[SlotInfo], lives: &[Life], counts: impl Fn(Class) -> bool) -> usize {
    let wide = slots.iter().zip(lives).filter(|(info, life)| counts(info.class) && life.bytes > 0);
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
pub fn place(slots: &mut [SlotInfo], lives: &[Life], (rows, cols): (usize, usize)) -> usize {
    let mut top = 0;
    for info in slots.iter_mut() {
        if let Place::Constant(offset, _) | Place::Argument(offset, ..) = &mut info.place {
            *offset = top;
            top += 8;
        }
    }
    top = top.next_multiple_of(ALIGN);
    let mut order: Vec<usize> = (0..slots.len()).filter(|&i| lives[i].bytes > 0).collect();
    order.sort_by_key(|&i| (lives[i].start, i));
    let mut busy: Vec<(u32, usize, usize)> = Vec::new();
    let mut free: Vec<(usize, usize)> = Vec::new();
    for i in order {
        let size = (slots[i].class.count(rows, cols) * lives[i].bytes).next_multiple_of(ALIGN).max(ALIGN);
        busy.retain(|&(end, offset, size)| {
            let over = end <= lives[i].start;
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
        busy.push((lives[i].end, offset, size));
        slots[i].place = Place::Register(offset);
    }
    top
}
