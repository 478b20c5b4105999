//! Event files hold what was added, in records whose checksums are right. They stay in `target/tmp`, where
//! `tests/tensorboard/read.py` reads them with TensorBoard's own reader.

use std::fs;
use std::path::{Path, PathBuf};

use kiln::io::tensorboard::SummaryWriter;
use kiln::prelude::*;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("an old run");
    }
    folder
}

/// CRC-32C bit by bit, masked as in TFRecords.
fn masked_crc(data: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (if crc & 1 == 1 { 0x82f6_3b78 } else { 0 });
        }
    }
    (!crc).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The records of a file.
fn records(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).expect("an event file");
    let (mut rest, mut found) = (&bytes[..], Vec::new());
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().expect("eight bytes")) as usize;
        assert_eq!(word(&rest[8..]), masked_crc(&rest[..8]), "checksum of a length");
        let data = &rest[12..12 + length];
        assert_eq!(word(&rest[12 + length..]), masked_crc(data), "checksum of data");
        found.push(data.to_vec());
        rest = &rest[16 + length..];
    }
    found
}

/// The single file of a run.
fn event_file(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder).expect("a run").map(|file| file.expect("a file").path());
    let files: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
    let [file] = &files[..] else { panic!("one file, not {files:?}") };
    file.clone()
}

fn contains(data: &[u8], part: &[u8]) -> bool {
    data.windows(part.len()).any(|window| window == part)
}

#[test]
fn records_have_what_was_added() {
    let folder = folder("tensorboard");
    let mut writer = SummaryWriter::new(&folder).expect("a writer");
    for step in 0..5 {
        writer.add_scalar("loss/train", 0.5f32.powi(step), step.into()).expect("a scalar");
    }
    let values = Tensor::linspace(-2.0, 2.0, 1001, ());
    writer.add_histogram("weights", &values, 7).expect("a histogram");
    let pixels = Tensor::from_vec((0..24).map(|i| i as f32 / 23.0).collect(), [3, 2, 4], ());
    writer.add_image("picture", &pixels, 1).expect("an image");
    writer.add_image("gray", &Tensor::from_vec(vec![7u8; 12], [3, 4], ()), 1).expect("an image");
    writer.add_text("notes", "lr = **0.1**, größer", 2).expect("a text");
    writer.add_scalars("both", &[("train", 0.25), ("test", 0.75)], 3).expect("scalars");
    writer.flush().expect("a disk");
    let path = writer.path().to_path_buf();
    let found = records(&path);
    assert_eq!(found.len(), 1 + 5 + 1 + 2 + 1);
    assert!(contains(&found[0], b"brain.Event:2"));
    // Field 2 of a value, in the order of bytes.
    assert!(
        contains(&found[3], b"loss/train")
            && contains(&found[3], &[&[0x15][..], &0.25f32.to_le_bytes()].concat())
    );
    assert!(contains(&found[7], b"\x89PNG\r\n\x1a\n"));
    assert!(contains(&found[9], b"notes/text_summary") && contains(&found[9], "größer".as_bytes()));
    assert_eq!(event_file(&folder), path);
    drop(writer);
    assert_eq!(records(&event_file(&folder.join("both_train"))).len(), 2);
}

#[test]
fn what_was_added_is_written_when_the_writer_is_dropped() {
    let folder = folder("tensorboard_dropped");
    let mut writer = SummaryWriter::new(&folder).expect("a writer");
    writer.add_scalar("x", 1.0, 0).expect("a scalar");
    let path = writer.path().to_path_buf();
    assert_eq!(records(&path).len(), 1, "the version is there at once");
    drop(writer);
    assert_eq!(records(&path).len(), 2);
}

#[test]
fn what_cannot_be_shown_is_an_error() {
    let folder = folder("tensorboard_errors");
    let mut writer = SummaryWriter::new(&folder).expect("a writer");
    let image = |dims: &[usize]| Tensor::zeros(dims, ());
    for dims in [&[5][..], &[2, 4, 4], &[3, 0, 4], &[1, 3, 4, 4]] {
        let error = writer.add_image("x", &image(dims), 0).expect_err("no image").to_string();
        assert!(error.contains("add_image") && error.contains("tensorboard.rs"), "{error}");
    }
    assert!(writer.add_image("x", &Tensor::empty([2, 2], Device::meta()), 0).is_err());
    assert!(writer.add_histogram("x", &(Tensor::zeros([3], ()) / 0.0), 0).is_err());
    assert!(writer.add_histogram("x", &Tensor::ones([3], ()).reshape([2]), 0).is_err());
    let file = writer.path().join("below");
    assert!(
        SummaryWriter::new(file).expect_err("a file is no folder").to_string().contains("tensorboard.rs")
    );
}
