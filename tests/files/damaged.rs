//! Headers and indices that make no sense.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kiln::RawTensor;

use super::*;

#[test]
fn shapes_that_no_tensor_has_are_refused() {
    let folder = Folder::new("shapes");
    let open = |dtype: &str, shape: &str, bytes: usize, expected: &str| {
        let header = format!("{{{}}}", entry("x", dtype, shape, bytes));
        refused(&folder.put("x.safetensors", with_header(&header, bytes)), expected)
    };
    let max = usize::MAX;
    for dtype in ["F32", "U8", "F4", "NEW"] {
        for shape in [format!("[0, {max}, {max}]"), format!("[{max}, 0]"), format!("[{max}, {max}]")] {
            open(dtype, &shape, 0, "x: expected at most 2^63 - 1 bytes");
        }
    }
    for shape in ["[-1]", "[1.5]", "[1e2]", "[null]", "[[1]]", "[18446744073709551616]", "3", "{}"] {
        open("F32", shape, 4, "x: expected sizes under \"shape\"");
    }
    for axes in [256, 100_000] {
        let shape = format!("{:?}", vec![1; axes]);
        open("F32", &shape, 4, &format!("x: expected at most 255 axes, found {axes}"));
        open("U16", &shape, 2, &format!("x: expected at most 255 axes, found {axes}"));
    }
    open("F32", "[2]", 4, "x: F32[2] takes 8 bytes, and 4 are given");
    open("F32", &format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)), 4, "recursion limit");
}

#[test]
fn the_largest_rank_and_empty_axes_can_be_used() {
    let folder = Folder::new("ranks");
    let first = f32::from_le_bytes([0, 1, 2, 3]);
    for rank in [64, 255] {
        let header = format!("{{{}}}", entry("x", "F32", &format!("{:?}", vec![1; rank]), 4));
        let state = StateDict::open(folder.put("x.safetensors", with_header(&header, 4))).unwrap();
        let x = state.get("x").unwrap();
        assert_eq!((x.rank(), x.to_vec::<f32>().unwrap()), (rank, vec![first]));
        assert!(x.to_text().unwrap().contains("3.8"));
        // Reductions take fewer axes, and say so.
        assert_eq!(x.sum(..).item::<f32>().ok(), (rank <= 64).then_some(first));
    }
    let header = format!("{{{}}}", entry("x", "F32", "[0, 1073741824, 1073741824]", 0));
    let state = StateDict::open(folder.put("x.safetensors", with_header(&header, 0))).unwrap();
    assert_eq!(state.get("x").unwrap().sum(..).item::<f32>().unwrap(), 0.0);
}

#[test]
fn names_that_are_there_twice_are_refused() {
    let folder = Folder::new("twice");
    let (a, escaped) = (entry("x", "U8", "[1]", 1), entry(r"\u0078", "U8", "[1]", 1));
    for header in [
        format!("{{{a}, {a}}}"),
        format!("{{{a}, {escaped}}}"),
        r#"{"__metadata__": {"x": "1", "x": "2"}}"#.into(),
        r#"{"y": {"dtype": "U8", "shape": [1], "x": 1, "x": 2, "data_offsets": [0, 1]}}"#.into(),
    ] {
        refused(&folder.put("x.safetensors", with_header(&header, 1)), "\"x\" is named twice");
    }
    let index = folder.put("i.json", r#"{"weight_map": {"x": "a.safetensors", "x": "b.safetensors"}}"#);
    refused(&index, "\"x\" is named twice");
}

#[test]
fn data_that_overlap_or_leave_holes_are_refused() {
    let folder = Folder::new("offsets");
    let two = |first: &str, second: &str| {
        let of = |name: &str, place: &str| {
            format!(r#""{name}": {{"dtype": "U8", "shape": [2], "data_offsets": {place}}}"#)
        };
        with_header(&format!("{{{}, {}}}", of("x", first), of("y", second)), 4)
    };
    let max = u64::MAX;
    for (first, second) in
        [("[0, 2]", "[1, 3]"), ("[0, 2]", "[0, 2]"), ("[1, 3]", "[3, 5]"), ("[2, 4]", "[3, 5]")]
    {
        refused(&folder.put("x.safetensors", two(first, second)), "expected its data at byte");
    }
    refused(&folder.put("x.safetensors", two("[0, 2]", &format!("[{}, {max}]", max - 2))), "at byte 2");
    refused(&folder.put("x.safetensors", two("[2, 0]", "[2, 4]")), "expected a beginning and an end");
    refused(&folder.put("x.safetensors", two("[0, 2]", "[2, 4.0]")), "expected sizes under \"data_offsets\"");
    let mut long = two("[0, 2]", "[2, 4]");
    long[..8].fill(0xff);
    refused(&folder.put("x.safetensors", long), "said to be of 18446744073709551615 bytes");
    refused(&folder.put("x.safetensors", ""), "0 bytes are too few");
}

/// Numbers that repeat with every run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % below as u64) as usize
    }
    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.next(from.len())]
    }

    /// A file with one thing changed: a byte, the length, a stretch that is
    /// gone or there twice, or a number of the header.
    fn damage(&mut self, whole: &[u8]) -> Vec<u8> {
        const NUMBERS: [&str; 8] =
            ["-1", "18446744073709551615", "9223372036854775808", "1e308", "0.5", "[1,2]", "null", "0"];
        let header = whole.iter().position(|byte| *byte == 0).map_or(whole.len(), |_| whole.len().min(700));
        let (from, length) = (self.next(header), 1 + self.next(40));
        let to = (from + length).min(whole.len());
        let mut file = whole.to_vec();
        match self.next(6) {
            0 => file[from] ^= 1 << self.next(8),
            1 => file[from] = self.next(256) as u8,
            2 => file.truncate(self.next(whole.len())),
            3 => drop(file.drain(from..to)),
            4 => drop(file.splice(from..from, whole[from..to].to_vec())),
            _ => {
                let digits: Vec<usize> = (8..header).filter(|&i| whole[i].is_ascii_digit()).collect();
                let at = digits[self.next(digits.len())];
                drop(file.splice(at..at + 1, self.pick(&NUMBERS).bytes()));
            }
        }
        // Half of the files have a length that fits what is there.
        if self.next(2) == 0 && whole.get(8) == Some(&b'{') && file.len() > 8 {
            let end =
                file.iter().rposition(|byte| *byte == b'}').map_or(0, |end| (end + 1).saturating_sub(8));
            file[..8].copy_from_slice(&(end as u64).to_le_bytes());
        }
        file
    }
}

/// Uses everything that an opened state holds.
fn use_all(state: &mut StateDict, path: &Path) {
    for (_, tensor) in state.iter() {
        let _ = tensor.to_text().map(|text| text.len());
        let _ = tensor.sum(..).to_dtype(DType::F64).item::<f64>();
    }
    let held: usize = state.raw_tensors().map(|(_, raw)| raw.bytes().len()).sum();
    assert!(held < 1 << 20);
    let _ = state.convert();
    let _ = state.save(path);
}

#[test]
fn a_thousand_damaged_files_are_states_or_errors() {
    let folder = Folder::new("mutated");
    let mut whole = state(7);
    whole.insert("half", &Tensor::ones([2, 2], DType::F16)).unwrap();
    whole.insert("flags", &Tensor::from(true)).unwrap();
    whole.insert_raw("eight", &RawTensor::new("F8_E4M3", [3], vec![1, 2, 3]).unwrap()).unwrap();
    whole.insert_raw("wide", &RawTensor::new("U64", [1], vec![9; 8]).unwrap()).unwrap();
    whole.metadata_mut().insert("format".into(), "pt".into());
    whole.save(folder.file("one.safetensors")).unwrap();
    whole.save_sharded(folder.file("many.safetensors"), 24).unwrap();
    let index = "many.safetensors.index.json";
    let originals = ["one.safetensors", index].map(|name| fs::read(folder.file(name)).unwrap());
    let mut numbers = Numbers(1);
    let mut opened = 0;
    for round in 0..1000 {
        let kind = usize::from(round % 4 == 3);
        let damaged = numbers.damage(&originals[kind]);
        let path = folder.put(["one.safetensors", index][kind], &damaged);
        let outcome = catch_unwind(AssertUnwindSafe(|| match StateDict::open(&path) {
            Ok(mut state) => {
                use_all(&mut state, &folder.file("again.safetensors"));
                1
            }
            Err(error) => {
                assert!(error.to_string().contains(file!()), "{error}");
                0
            }
        }));
        opened += outcome.unwrap_or_else(|_| panic!("round {round}: {}", String::from_utf8_lossy(&damaged)));
    }
    // Neither all is refused, nor all accepted.
    assert!((20..800).contains(&opened), "{opened} of 1000");
}
