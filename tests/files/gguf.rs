//! GGUF files, beside what the PyPI package `gguf` made of the same (`record_gguf.py`).

use kiln::io::gguf::{BlockFormat, Gguf, GgufValue};
use kiln::nn::{Linear, ModuleExt};
use kiln::{LoadOpts, Quantization, RawTensor};

use super::*;

fn recorded(name: &str) -> PathBuf {
    Path::new("tests/files/recorded").join(name)
}

#[test]
fn blocks_of_every_format_are_the_numbers_of_the_formats_own_library() {
    let state = StateDict::open(recorded("blocks.safetensors")).unwrap();
    for format in BlockFormat::all() {
        let of = |what: &str| state.get(&format!("{}.{what}", format.name())).unwrap();
        let packed = of("bytes").to_vec::<u8>().unwrap();
        let expected = of("values").to_vec::<f32>().unwrap();
        let found = format.decode(&packed);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        // A zero's sign is that of the order of operations.
        let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(
            (found.len(), differs),
            (expected.len(), None),
            "{}: {:?}",
            format.name(),
            bits(&found)[0]
        );
    }
}

#[test]
fn blocks_are_encoded_as_by_the_formats_own_library() {
    let state = StateDict::open(recorded("blocks.safetensors")).unwrap();
    for format in [BlockFormat::Q8_0, BlockFormat::Q4_0] {
        let expected = state.get(&format!("{}.encoded", format.name())).unwrap().to_vec::<u8>().unwrap();
        let mut file = Gguf::new();
        file.insert_packed("numbers", state.get("numbers").unwrap(), format).unwrap();
        assert!(file.state().raw("numbers").unwrap().bytes() == expected, "{}", format.name());
    }
}

#[test]
fn blocks_that_stay_packed_have_the_numbers_they_are_decoded_to() {
    let numbers = Tensor::randn([6, 64], ()) * 3.0;
    for quantization in Quantization::ALL {
        let mut file = Gguf::new();
        let format = BlockFormat::of(quantization.name()).unwrap();
        file.insert_packed("weight", &numbers, format).unwrap();
        let net = Linear::without_bias(64, 6, ());
        net.load_state_dict_with(file.state(), LoadOpts::default().quantized(true)).unwrap();
        assert_eq!(net.weight.quantized().unwrap().quantization(), quantization);
        let decoded = file.state().raw("weight").unwrap().to_tensor().to_vec::<f32>().unwrap();
        assert_eq!(net.weight.get().to_vec::<f32>().unwrap(), decoded, "{quantization:?}");
    }
}

#[test]
fn blocks_of_every_format_stay_packed_near_the_numbers_they_are_decoded_to() {
    let recorded = StateDict::open(recorded("blocks.safetensors")).unwrap();
    for format in BlockFormat::all() {
        let bytes = recorded.get(&format!("{}.bytes", format.name())).unwrap().to_vec::<u8>().unwrap();
        let decoded = format.decode(&bytes);
        let mut state = StateDict::new();
        let raw = RawTensor::new(format.name(), [1, decoded.len()], bytes).unwrap();
        state.insert_raw("weight", &raw).unwrap();
        let net = Linear::without_bias(decoded.len(), 1, ());
        net.load_state_dict_with(&state, LoadOpts::default().quantized(true)).unwrap();
        let packed = net.weight.quantized().unwrap();
        assert_eq!(packed.quantization(), format.quantization());
        let found = net.weight.get().to_vec::<f32>().unwrap();
        for (block, (found, decoded)) in found.chunks(32).zip(decoded.chunks(32)).enumerate() {
            let largest = decoded.iter().fold(0f32, |largest, x| largest.max(x.abs()));
            // Of scales in 16 bits, of codes of 8 bits.
            let error = match format {
                BlockFormat::Q4_0 | BlockFormat::Q4_1 | BlockFormat::Q8_0 | BlockFormat::Q5_0 => 0.0,
                BlockFormat::IQ4_NL => 0.0,
                // Scales of at most 2 times 63, codes of at most 15.
                BlockFormat::Q4_K => 2.0 * 63.0 * 16.0 / 4096.0,
                BlockFormat::MXFP4 => 2f32.powi(-25) * 12.0,
                _ => largest / 254.0 + largest / 4096.0,
            };
            let off = found.iter().zip(decoded).any(|(a, b)| !((a - b).abs() <= error));
            assert!(!off, "{}, block {block}: {found:?}\n{decoded:?}", format.name());
        }
    }
}

#[test]
fn metadata_of_all_types_and_tensors_of_another_library_are_read() {
    let file = Gguf::open(recorded("small.gguf")).unwrap();
    let expected = [
        ("u8", GgufValue::U8(255)),
        ("i8", GgufValue::I8(-1)),
        ("u16", GgufValue::U16(65535)),
        ("i16", GgufValue::I16(-2)),
        ("u32", GgufValue::U32(u32::MAX)),
        ("i32", GgufValue::I32(-3)),
        ("u64", GgufValue::U64(u64::MAX)),
        ("i64", GgufValue::I64(-4)),
        ("f32", GgufValue::F32(0.5)),
        ("f64", GgufValue::F64(0.1)),
        ("bool", GgufValue::Bool(true)),
        ("general.alignment", GgufValue::U32(64)),
        ("tokens", GgufValue::List(["a", "é", ""].map(GgufValue::from).to_vec())),
        ("scores", GgufValue::List(vec![GgufValue::F32(1.5), GgufValue::F32(-2.0)])),
    ];
    for (key, value) in &expected {
        assert_eq!(file.get(key), Some(value), "{key}");
    }
    let state = file.state();
    assert_eq!(state.get("grid").unwrap().to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(state.get("grid").unwrap().shape()[..], [2, 3]);
    assert_eq!(state.get("half").unwrap().float().to_vec::<f32>().unwrap()[5], 5.0);
    assert_eq!(state.get("ints").unwrap().to_vec::<i32>().unwrap(), [0, 1, 2, 3]);
    let packed = state.raw("packed").unwrap();
    assert_eq!((packed.dtype(), &packed.shape()[..], packed.bytes().len()), ("Q8_0", &[2, 32][..], 68));
    let numbers = packed.to_tensor().to_vec::<f32>().unwrap();
    assert!(numbers.iter().enumerate().all(|(i, x)| (x - (2.0 * i as f32 / 63.0 - 1.0)).abs() < 0.01));
    assert_eq!(state.metadata()["general.architecture"], "llama");
}

#[test]
fn what_is_saved_opens_again_packed_or_not() {
    let folder = Folder::new("gguf");
    let x = Tensor::linspace(-1.0, 1.0, 128, ()).reshape([2, 64]);
    let mut file = Gguf::new();
    file.set("general.alignment", GgufValue::U32(128));
    file.set("deep", GgufValue::List(vec![GgufValue::List(vec![GgufValue::Bool(true)])]));
    file.insert("f32", &x).unwrap();
    file.insert("f16", &x.half()).unwrap();
    file.insert("bf16", &x.bfloat16()).unwrap();
    file.insert("scalar", &Tensor::scalar(3.0, ())).unwrap();
    file.insert_packed("q8", &x, BlockFormat::Q8_0).unwrap();
    file.insert_packed("q4", &x.half(), BlockFormat::Q4_0).unwrap();
    file.save(folder.file("m.gguf")).unwrap();
    let opened = Gguf::open(folder.file("m.gguf")).unwrap();
    opened.save(folder.file("again.gguf")).unwrap();
    let bytes = ["m.gguf", "again.gguf"].map(|name| fs::read(folder.file(name)).unwrap());
    assert_eq!(bytes[0], bytes[1]);
    assert_eq!(opened.get("deep"), file.get("deep"));
    for name in ["f32", "f16", "bf16", "scalar"] {
        let bits = |file: &Gguf| file.state().get(name).unwrap().double().to_vec::<f64>().unwrap();
        assert_eq!(bits(&opened), bits(&file), "{name}");
    }
    let error = |name, format| {
        let numbers = opened.state().raw(name).unwrap().to_tensor();
        assert_eq!(opened.state().raw(name).unwrap().dtype(), BlockFormat::name(format));
        (numbers - &x).abs().max(..).item::<f32>().unwrap()
    };
    assert!(error("q8", BlockFormat::Q8_0) < 0.01 && error("q4", BlockFormat::Q4_0) < 0.13);

    // Into a module, whose type the numbers get.
    let net = Linear::without_bias(64, 2, ());
    net.to_dtype(DType::F16).unwrap();
    let opts = LoadOpts::default().rename("q8", "weight").convert(true).strict(false);
    let report = net.load_state_dict_with(opened.state(), opts).unwrap();
    assert_eq!((&report.converted[0].from[..], report.converted[0].to), ("Q8_0", DType::F16));
}

#[test]
fn what_the_format_does_not_have_is_refused() {
    let folder = Folder::new("gguf-refused");
    let mut file = Gguf::new();
    let odd = file.insert_packed("x", &Tensor::ones([2, 33], ()), BlockFormat::Q8_0).unwrap_err().to_string();
    assert!(
        odd.contains("rows of whole blocks of 32, found Q8_0 of [2, 33]") && odd.contains(file!()),
        "{odd}"
    );
    let read_only = file.insert_packed("x", &Tensor::ones([256], ()), BlockFormat::Q6_K).unwrap_err();
    assert!(read_only.to_string().contains("Q8_0, Q4_0 or Q4_1"), "{read_only}");
    file.insert("flags", &Tensor::from([true])).unwrap();
    let error = file.save(folder.file("m.gguf")).unwrap_err().to_string();
    assert!(error.contains("flags: the format has no BOOL"), "{error}");
    let short = RawTensor::new("Q4_K", [256], vec![0; 3]).unwrap();
    assert!(short.to_tensor().check().is_err());
    let refused = |content: &[u8], expected: &str| {
        let error = StateDict::open_gguf(folder.put("m.gguf", content)).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(file!()), "{error}");
    };
    refused(b"GGUF\x01\0\0\0", "expected version 2 or 3, found 1");
    refused(b"GGUF\0\0\0\x03", "it is big-endian");
    refused(b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f\0\0\0\0\0\0\0\0", "the header is cut short");
    refused(
        b"\x93NUMPY",
        "expected a GGUF file, found a NumPy array (.npy), which is opened by Tensor::open_npy",
    );
}

/// A part of a model of several files: a tensor of its number, which the first two have in blocks.
fn part(place: u16, count: u16) -> Gguf {
    let mut file = Gguf::new();
    file.set("general.name", format!("part {place}").as_str().into());
    file.set("split.no", GgufValue::U16(place));
    file.set("split.count", GgufValue::U16(count));
    file.set("split.tensors.count", GgufValue::I32(i32::from(count)));
    let (name, tensor) = (format!("t{place}"), Tensor::full([2, 32], f64::from(place), ()));
    let added = match place {
        0 | 1 => file.insert_packed(&name, &tensor, BlockFormat::Q8_0),
        _ => file.insert(&name, &tensor),
    };
    added.unwrap();
    file
}

#[test]
fn a_model_of_several_files_is_opened_by_the_first() {
    let folder = Folder::new("gguf_split");
    let path = |place: usize| folder.file(&format!("m-{place:05}-of-00003.gguf"));
    for place in 0..3 {
        part(place, 3).save(path(usize::from(place) + 1)).unwrap();
    }
    let whole = Gguf::open(path(1)).unwrap();
    for place in 0..2 {
        let numbers = whole.state().raw(&format!("t{place}")).unwrap().to_tensor();
        assert!((numbers - f64::from(place)).abs().max(..).item::<f32>().unwrap() < 1e-3);
    }
    assert_eq!(whole.state().get("t2").unwrap().to_vec::<f32>().unwrap(), [2.0; 64]);
    // It is whole: nothing says that it was divided, also not where it is saved.
    assert_eq!(whole.metadata().map(|(key, _)| key).collect::<Vec<_>>(), ["general.name"]);
    assert_eq!(whole.state().metadata()["general.name"], "part 0");
    whole.save(folder.file("whole.gguf")).unwrap();
    let again = Gguf::open(folder.file("whole.gguf")).unwrap();
    assert_eq!((again.state().len(), again.state().raw_tensors().count()), (1, 2));

    let error = |path: &Path| Gguf::open(path).unwrap_err().to_string();
    let expected = "expected the first of 3 files, named as m-00001-of-00003.gguf, found number 2";
    assert!(error(&path(2)).contains(expected), "{}", error(&path(2)));
    std::fs::copy(path(1), folder.file("renamed.gguf")).unwrap();
    assert!(error(&folder.file("renamed.gguf")).contains("found number 1"));
    std::fs::rename(path(1), folder.file("first")).unwrap();
    std::fs::copy(path(2), path(1)).unwrap();
    assert!(error(&path(1)).contains(expected));
    std::fs::rename(folder.file("first"), path(1)).unwrap();
    std::fs::copy(path(3), path(2)).unwrap();
    let found = error(&path(1));
    assert!(found.contains("expected number 2 of 3 files") && found.contains("m-00002-of"), "{found}");
    std::fs::remove_file(path(2)).unwrap();
    assert!(error(&path(1)).contains("m-00002-of-00003.gguf"), "{}", error(&path(1)));
    let alone = std::fs::read(path(3)).unwrap();
    let found = pollster::block_on(Gguf::open_async(&alone[..])).unwrap_err().to_string();
    assert!(found.contains("expected a whole model, found number 3 of 3 files"), "{found}");
}

#[test]
fn a_tensor_in_two_files_is_an_error() {
    let folder = Folder::new("gguf_twice");
    for place in 0..2 {
        let mut file = part(place, 2);
        file.insert("same", &Tensor::zeros([1], ())).unwrap();
        file.save(folder.file(&format!("m-{:05}-of-00002.gguf", place + 1))).unwrap();
    }
    let error = Gguf::open(folder.file("m-00001-of-00002.gguf")).unwrap_err().to_string();
    assert!(error.contains("same") && error.contains("m-00002-of"), "{error}");
}
