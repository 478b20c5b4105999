//! Types that kiln does not compute with, and what a file holds beside tensors.

use half::f16;
use kiln::RawTensor;
use kiln::nn::{Linear, ModuleExt};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::*;

/// A state of all types that convert, one that the format knows, and one that
/// it does not.
fn foreign() -> StateDict {
    let mut state = state(5);
    let raw = |dtype, shape: &[usize], bytes: &[u8]| RawTensor::new(dtype, shape, bytes.to_vec()).unwrap();
    for (name, tensor) in [
        ("i8", raw("I8", &[2], &[255, 127])),
        ("i16", raw("I16", &[2], &[0, 128, 1, 0])),
        ("u16", raw("U16", &[1, 2], &[255, 255, 1, 0])),
        ("u64", raw("U64", &[1], &[255, 255, 255, 255, 255, 255, 255, 127])),
        ("e4m3", raw("F8_E4M3", &[2], &[0x38, 0xfe])),
        ("e5m2", raw("F8_E5M2", &[2], &[0x3c, 0xfb])),
        ("c64", raw("C64", &[1], &[1; 8])),
        ("new", raw("NEW_9", &[5], &[1, 2, 3])),
    ] {
        state.insert_raw(name, &tensor).unwrap();
    }
    state
}

#[test]
fn a_file_with_other_types_is_read_and_its_bytes_can_be_had() {
    let folder = Folder::new("raw");
    let saved = foreign();
    saved.save(folder.file("s.safetensors")).unwrap();
    saved.save_sharded(folder.file("s.safetensors"), 9).unwrap();
    for path in ["s.safetensors", "s.safetensors.index.json"] {
        let opened = StateDict::open(folder.file(path)).unwrap();
        assert_eq!(value(&opened), 5);
        assert_eq!(opened.raw_tensors().count(), 8);
        for ((name, tensor), (other, found)) in saved.raw_tensors().zip(opened.raw_tensors()) {
            assert_eq!((name, tensor.dtype(), tensor.shape()), (other, found.dtype(), found.shape()));
            assert_eq!(tensor.bytes(), found.bytes());
        }
        assert_eq!(opened.raw("new").unwrap().dtype(), "NEW_9");
        opened.save(folder.file("again.safetensors")).unwrap();
        let bytes = ["s.safetensors", "again.safetensors"].map(|name| fs::read(folder.file(name)).unwrap());
        assert_eq!(bytes[0], bytes[1]);
    }
}

#[test]
fn other_types_convert_on_request() {
    let mut outer = StateDict::new();
    outer.extend("model", foreign()).unwrap();
    let mut state = outer.part("model");
    assert!(state.get("i8").is_none() && outer.raw("model.i8").is_some());
    state.convert().unwrap();
    let ints = |name| state.get(name).unwrap().to_vec::<i32>().unwrap();
    assert_eq!((ints("i8"), ints("i16"), ints("u16")), (vec![-1, 127], vec![-32768, 1], vec![65535, 1]));
    assert_eq!(state.get("u16").unwrap().shape()[..], [1, 2]);
    assert_eq!(state.get("u64").unwrap().to_vec::<i64>().unwrap(), [i64::MAX]);
    let floats = |name| {
        let values = state.get(name).unwrap().to_vec::<f16>().unwrap();
        values.into_iter().map(f16::to_f32).collect::<Vec<_>>()
    };
    assert_eq!((floats("e4m3"), floats("e5m2")), (vec![1.0, -448.0], vec![1.0, -57344.0]));
    let left: Vec<&str> = state.raw_tensors().map(|(name, _)| name).collect();
    assert_eq!(left, ["c64", "new"]);

    let mut large = foreign();
    large.insert_raw("z", &RawTensor::new("U64", [1], vec![255; 8]).unwrap()).unwrap();
    let (text, line) = (large.convert().unwrap_err().to_string(), line!());
    assert!(text.contains("values that an i64 can have, found 18446744073709551615"), "{text}");
    assert!(text.contains(&format!("{}:{line}", file!())), "{text}");
    assert_eq!(large.raw_tensors().count(), 9, "nothing has changed");
    let text = large.raw("c64").unwrap().to_tensor().check().unwrap_err().to_string();
    assert!(text.contains("one of I8, I16") && text.contains("C64"), "{text}");
}

#[test]
fn raw_tensors_are_what_they_say() {
    let new = |dtype, shape: &[usize], bytes| RawTensor::new(dtype, shape, vec![0; bytes]);
    assert!(new("F32", &[1], 4).unwrap_err().to_string().contains(file!()));
    assert!(new("U16", &[3], 5).unwrap_err().to_string().contains("U16[3] takes 6 bytes, and 5 are given"));
    assert!(new("U16", &[usize::MAX, 0], 0).is_err() && new("U16", &[1; 256], 2).is_err());
    let mut state = state(1);
    let raw = new("U16", &[1], 2).unwrap();
    state.insert_raw("raw", &raw).unwrap();
    assert!(state.insert_raw("a", &raw).is_err() && state.insert("raw", &Tensor::ones([1], ())).is_err());
    assert!(state.insert("__metadata__", &Tensor::ones([1], ())).is_err());
}

#[test]
fn a_module_is_told_of_types_that_it_does_not_take() {
    let folder = Folder::new("module");
    let (path, model) = (folder.file("m.safetensors"), Linear::new(2, 1, ()));
    let mut saved = StateDict::new();
    saved.insert_raw("weight", &RawTensor::new("F8_E4M3", [1, 2], vec![0x38, 0x40]).unwrap()).unwrap();
    saved.insert_raw("extra", &RawTensor::new("I8", [1], vec![1]).unwrap()).unwrap();
    saved.insert("bias", &Tensor::zeros([1], ())).unwrap();
    saved.save(&path).unwrap();
    let text = model.load(&path, Device::cpu()).unwrap_err().to_string();
    for part in
        ["weight: expected f32[1, 2], found F8_E4M3[1, 2]", "extra: expected nothing, found I8[1]", file!()]
    {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    assert!(!text.contains("found nothing"), "{text}");
}

#[test]
fn metadata_are_written_and_read() {
    let folder = Folder::new("metadata");
    let mut saved = state(3);
    saved.metadata_mut().extend([("format".into(), "pt".into()), ("é\"\n".into(), "\u{0}".into())]);
    saved.save(folder.file("s.safetensors")).unwrap();
    saved.save_sharded(folder.file("s.safetensors"), 24).unwrap();
    for path in ["s.safetensors", "s.safetensors.index.json"] {
        assert_eq!(StateDict::open(folder.file(path)).unwrap().metadata(), saved.metadata());
    }
    let file = fs::read(folder.file("s.safetensors")).unwrap();
    let (_, header) = SafeTensors::read_metadata(&file).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["format"], "pt");
    assert!(StateDict::new().metadata().is_empty());
}

#[test]
fn the_formats_own_library_reads_and_writes_the_same_files() {
    let folder = Folder::new("library");
    let mut saved = foreign();
    let known: Vec<(String, RawTensor)> = saved
        .raw_tensors()
        .filter(|(name, _)| *name != "new")
        .map(|(n, raw)| (n.into(), raw.clone()))
        .collect();
    saved = state(5);
    known.iter().for_each(|(name, raw)| saved.insert_raw(name, raw).unwrap());
    saved.metadata_mut().insert("format".into(), "pt".into());
    saved.save(folder.file("s.safetensors")).unwrap();
    let ours = fs::read(folder.file("s.safetensors")).unwrap();
    let read = SafeTensors::deserialize(&ours).unwrap();
    let metadata = [("format".to_string(), "pt".to_string())].into_iter().collect();
    let views: Vec<(String, TensorView)> = read.tensors();
    assert_eq!(views.len(), 9);
    assert!(views.iter().any(|(name, view)| name == "e5m2" && view.dtype() == Dtype::F8_E5M2));
    let theirs = safetensors::serialize(views, Some(metadata)).unwrap();
    assert!(ours == theirs, "{}", String::from_utf8_lossy(&theirs[..ours.len().min(900)]));
}
