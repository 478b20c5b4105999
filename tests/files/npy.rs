//! NumPy's files, beside those that NumPy made (`record_numpy.py`).

use super::*;

fn recorded(name: &str) -> PathBuf {
    Path::new("tests/files/recorded").join(name)
}

const GRID: [f64; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

#[test]
fn arrays_of_all_types_are_read_stored_or_deflated() {
    for name in ["stored.npz", "deflated.npz"] {
        let mut state = StateDict::open_npz(recorded(name)).unwrap();
        let raw: Vec<&str> = state.raw_tensors().map(|(_, raw)| raw.dtype()).collect();
        assert_eq!(raw, ["I16", "I16", "I8", "I16", "U16", "U64"]);
        state.convert().unwrap();
        assert_eq!(state.len(), 19);
        for (name, tensor) in state.iter() {
            let values = tensor.double().to_vec::<f64>().unwrap();
            match name {
                "bool" => assert_eq!(tensor.to_vec::<bool>().unwrap()[2..4], [false, true]),
                "scalar" => assert_eq!((tensor.rank(), values), (0, vec![7.0])),
                "none" => assert_eq!(tensor.shape()[..], [0, 3]),
                "line" => assert_eq!(values, GRID[..3]),
                _ => assert_eq!((&tensor.shape()[..], &values[..]), (&[2, 3][..], &GRID[..]), "{name}"),
            }
        }
        let types = ["f2", "f4", "f8", "i4", "i8", "u1", "u4"].map(|name| state.get(name).unwrap().dtype());
        let expected = [DType::F16, DType::F32, DType::F64, DType::I32, DType::I64, DType::U8, DType::U32];
        assert_eq!(types, expected);
    }
    // In Fortran's order, alone in its file, and as an operand.
    let x = Tensor::open_npy(recorded("fortran.npy")).unwrap();
    assert_eq!(x.matmul(&x.t()).to_vec::<f32>().unwrap(), [5.0, 14.0, 14.0, 50.0]);
    assert_eq!((&x.i((.., 1)) + 1.0).to_vec::<f32>().unwrap(), [2.0, 5.0]);
}

#[test]
fn tensors_of_all_types_come_back() {
    let folder = Folder::new("npz");
    let mut state = StateDict::new();
    for dtype in DType::ALL {
        state.insert(dtype.name(), &Tensor::from([[0.0f32, 1.0, 1.0]]).to_dtype(dtype)).unwrap();
    }
    state.insert("turned", &Tensor::arange(0, 6, 1, ()).reshape([2, 3]).t()).unwrap();
    state.insert("folder/é", &Tensor::scalar(1.5, ())).unwrap();
    state.insert_raw("i8", &kiln::RawTensor::new("I8", [2], vec![1, 255]).unwrap()).unwrap();
    state.save_npz(folder.file("s.npz")).unwrap();
    let opened = StateDict::open_npz(folder.file("s.npz")).unwrap();
    assert_eq!(opened.len(), state.len());
    for ((name, tensor), (other, found)) in state.iter().zip(opened.iter()) {
        assert_eq!((name, tensor.dtype(), tensor.shape()), (other, found.dtype(), found.shape()));
        let values = [tensor, found].map(|t| t.double().to_vec::<f64>().unwrap());
        assert_eq!(values[0], values[1], "{name}");
    }
    assert_eq!(opened.raw("i8").unwrap().bytes(), [1, 255]);
    opened.save_npz(folder.file("again.npz")).unwrap();
    let bytes = ["s.npz", "again.npz"].map(|name| fs::read(folder.file(name)).unwrap());
    assert_eq!(bytes[0], bytes[1]);
    Tensor::from([1i64, 2]).save_npy(folder.file("x.npy")).unwrap();
    assert_eq!(Tensor::open_npy(folder.file("x.npy")).unwrap().to_vec::<i64>().unwrap(), [1, 2]);
}

#[test]
fn what_is_no_array_is_refused_with_the_name_of_its_file() {
    let folder = Folder::new("npz-refused");
    let mut file = fs::read(recorded("fortran.npy")).unwrap();
    file.pop();
    let error = Tensor::open_npy(folder.put("x.npy", &file)).unwrap_err().to_string();
    assert!(error.contains("x.npy: F32[2, 3] takes 24 bytes, and 23 are given"), "{error}");
    let error = Tensor::open_npy(recorded("stored.npz")).unwrap_err().to_string();
    assert!(
        error.contains("found a NumPy archive (.npz), which is opened by StateDict::open_npz"),
        "{error}"
    );
    let mut state = StateDict::new();
    state.insert_raw("x", &kiln::RawTensor::new("F8_E5M2", [1], vec![0]).unwrap()).unwrap();
    let error = state.save_npz(folder.file("s.npz")).unwrap_err().to_string();
    assert!(error.contains("x: NumPy has no type F8_E5M2"), "{error}");
}
