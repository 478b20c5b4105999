//! PyTorch's files, beside those that `record_torch.py` lays out as PyTorch does.

use super::*;

fn recorded(name: &str) -> PathBuf {
    Path::new("tests/files/recorded").join(name)
}

#[track_caller]
fn values(state: &StateDict, name: &str) -> (Vec<usize>, Vec<f64>) {
    let tensor = state.get(name).unwrap_or_else(|| panic!("{name} is not there"));
    (tensor.shape().to_vec(), tensor.double().to_vec().unwrap())
}

#[test]
fn views_of_shared_storages_are_read_as_they_lie() {
    let state = StateDict::open_torch(recorded("state.pt")).unwrap();
    let ramp: Vec<f64> = (0..12).map(f64::from).collect();
    assert_eq!(values(&state, "embed.weight"), (vec![4, 3], ramp.clone()));
    assert_eq!(values(&state, "head.weight"), (vec![4, 3], ramp));
    let turned = vec![0.0, 3.0, 6.0, 9.0, 1.0, 4.0, 7.0, 10.0, 2.0, 5.0, 8.0, 11.0];
    assert_eq!(values(&state, "turned"), (vec![3, 4], turned));
    assert_eq!(values(&state, "part"), (vec![2, 2], vec![4.0, 5.0, 7.0, 8.0]));
    assert_eq!(values(&state, "repeated"), (vec![2, 3], vec![3.0, 4.0, 5.0, 3.0, 4.0, 5.0]));
    assert_eq!(values(&state, "scalar"), (vec![], vec![7.0]));
    assert_eq!(values(&state, "none"), (vec![0, 3], vec![]));
    let product = state.get("part").unwrap().matmul(state.get("part").unwrap());
    assert_eq!(product.to_vec::<f32>().unwrap(), [51.0, 60.0, 84.0, 99.0]);
}

#[test]
fn all_types_are_read() {
    let mut state = StateDict::open_torch(recorded("state.pt")).unwrap().part("types");
    let types = [
        ("FloatStorage", DType::F32),
        ("DoubleStorage", DType::F64),
        ("HalfStorage", DType::F16),
        ("LongStorage", DType::I64),
        ("IntStorage", DType::I32),
        ("ByteStorage", DType::U8),
        ("BoolStorage", DType::Bool),
    ];
    for (name, dtype) in types {
        assert_eq!(state.get(name).unwrap().dtype(), dtype);
        assert_eq!(values(&state, name).1, [0.0, 1.0, 1.0]);
    }
    let bits = state.get("BFloat16Storage").unwrap().to_vec::<half::bf16>().unwrap();
    assert_eq!(bits.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(state.get("uint32").unwrap().to_vec::<u32>().unwrap(), [1, u32::MAX]);
    assert_eq!(state.raw("CharStorage").unwrap().dtype(), "I8");
    state.convert().unwrap();
    assert_eq!(values(&state, "turned_short").1, [0.0, 2.0, 1.0, 3.0]);
}

#[test]
fn dictionaries_in_dictionaries_are_joined_by_dots() {
    let state = StateDict::open_torch(recorded("nested.pt")).unwrap();
    assert_eq!(values(&state, "optimizer.state.0.exp_avg").1, [1.0, 2.0]);
    assert_eq!(state.part("model").get("part").unwrap().numel(), 4);
    let told = ["epoch", "lr", "name", "done", "large", "optimizer.param_groups.0.betas.1"];
    let told = told.map(|name| &state.metadata()[name][..]);
    assert_eq!(told, ["3", "0.5", "é", "true", "-1099511627776", "0.999"]);
    assert_eq!(values(&StateDict::open_torch(recorded("protocol4.pt")).unwrap(), "x").1, [1.0, 2.0]);
    assert_eq!(values(&StateDict::open_torch(recorded("alone.pt")).unwrap(), "tensor").1, [1.0, 2.0]);
}

#[test]
fn nothing_is_executed_and_what_is_not_known_is_refused() {
    let folder = Folder::new("torch");
    let error = |path: &Path| StateDict::open_torch(path).unwrap_err().to_string();
    let called = error(&recorded("calls.pt"));
    assert!(
        called.contains("refers to __builtin__.print, which is not known, and nothing is executed"),
        "{called}"
    );
    assert!(error(&recorded("deflated.pt")).contains("expected files that are stored"));
    let old = folder.put("old.pth", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.");
    let old = error(&old);
    assert!(
        old.contains("a PyTorch file of the old kind (a pickle), which is opened by PyTorch itself"),
        "{old}"
    );
    let npz = error(&recorded("stored.npz"));
    assert!(npz.contains("found a NumPy archive (.npz)"), "{npz}");
}
