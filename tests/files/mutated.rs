//! A thousand damaged files of each format: a state or an error, soon, and without more memory than a file
//! can account for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::*;

/// Notes the largest block that each thread has asked for.
struct Noting;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is the system's allocator; a cell of plain data needs no memory.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(size));
        // SAFETY: the caller's promise.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Noting = Noting;

/// Numbers without order (splitmix64, Steele et al. 2014).
pub struct Numbers(pub u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % below as u64) as usize
    }

    /// Changes one to three things between two bytes; the length only if it may be another.
    pub fn damage(&mut self, whole: &[u8], from: usize, to: usize, keeps_length: bool) -> Vec<u8> {
        const LARGE: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        let mut file = whole.to_vec();
        for _ in 0..1 + self.next(3) {
            let to = to.min(file.len()).max(from + 1);
            let at = (from + self.next(to - from)).min(file.len().saturating_sub(1));
            let end = (at + 1 + self.next(24)).min(to).min(file.len());
            match self.next(if keeps_length { 4 } else { 7 }) {
                _ if file.is_empty() => {}
                0 => file[at] ^= 1 << self.next(8),
                1 => file[at] = self.next(256) as u8,
                2 => file[at..end].iter_mut().zip(LARGE).for_each(|(byte, large)| *byte = large),
                3 => file[at..end].reverse(),
                4 => file.truncate(at),
                5 => drop(file.drain(at..end)),
                _ => drop(file.splice(at..at, whole[from..].iter().take(24).copied())),
            }
        }
        file
    }
}

/// Opens a thousand files made of one, of which neither all nor none are still good.
#[track_caller]
fn a_thousand(name: &str, (from, to): (usize, usize), open: impl Fn(&Path) -> kiln::Result<StateDict>) {
    let folder = Folder::new(&format!("mutated-{name}"));
    let whole = fs::read(Path::new("tests/files/recorded").join(name)).unwrap();
    let keeps_length = to < whole.len();
    let (mut numbers, mut opened, started) = (Numbers(to as u64), 0, Instant::now());
    for round in 0..1000 {
        let damaged = numbers.damage(&whole, from, to, keeps_length);
        let path = folder.put("file", &damaged);
        LARGEST.set(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            open(&path).map(|mut state| drop(state.convert())).map_err(|error| error.to_string())
        }));
        let kept = folder.file("kept");
        let outcome = outcome.unwrap_or_else(|_| {
            fs::write(&kept, &damaged).unwrap();
            panic!("{name}: round {round} of {}", kept.display())
        });
        opened += usize::from(outcome.is_ok());
        // An array of bytes in a header is 32 bytes a value here, and a vector doubles.
        assert!(LARGEST.get() < 64 * whole.len() + (1 << 16), "{name}: {} bytes", LARGEST.get());
    }
    assert!((20..980).contains(&opened), "{name}: {opened} of 1000 opened");
    assert!(started.elapsed().as_secs() < 60, "{name}: took {:?}", started.elapsed());
}

/// Where a file of an archive that is stored begins and ends, by what it contains.
fn within(name: &str, start: &[u8], end: &[u8]) -> (usize, usize) {
    let whole = fs::read(Path::new("tests/files/recorded").join(name)).unwrap();
    let find = |part: &[u8], from: usize| {
        from + whole[from..].windows(part.len()).position(|window| window == part).unwrap()
    };
    let from = find(start, 0);
    (from, find(end, from))
}

#[test]
fn gguf_files() {
    a_thousand("small.gguf", (4, usize::MAX), |path| StateDict::open_gguf(path));
}

#[test]
fn arrays() {
    a_thousand("fortran.npy", (0, usize::MAX), |path| {
        let mut state = StateDict::new();
        state.insert("x", &Tensor::open_npy(path)?).map(|()| state)
    });
}

#[test]
fn archives() {
    a_thousand("stored.npz", (0, usize::MAX), |path| StateDict::open_npz(path));
    a_thousand("deflated.npz", (0, usize::MAX), |path| StateDict::open_npz(path));
}

#[test]
fn pickles() {
    let program = within("nested.pt", b"\x80\x02}", b"PK\x03\x04");
    a_thousand("nested.pt", program, |path| StateDict::open_torch(path));
    a_thousand("state.pt", (0, usize::MAX), |path| StateDict::open_torch(path));
}
