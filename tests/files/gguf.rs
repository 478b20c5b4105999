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
