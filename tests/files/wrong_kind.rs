//! Files of other kinds say which kind they are.

use super::*;

#[test]
fn a_file_of_another_kind_says_which() {
    let folder = Folder::new("doors");
    let zip =
        |name: &str| [b"PK\x03\x04", &[0; 22][..], &[name.len() as u8, 0, 0, 0], name.as_bytes()].concat();
    let onnx = b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\x90\x01";
    let pytorch = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.";
    let files: [(&str, &[u8], &str); 11] = [
        ("m.gguf", b"GGUF\x03\0\0\0\x01\0\0\0", "a GGUF file"),
        ("m.onnx", onnx, "an ONNX model"),
        ("m.pth", pytorch, "a PyTorch file of the old kind (a pickle)"),
        ("m.pkl", b"\x80\x04\x95\x05\0\0\0\0\0\0\0}\x94.", "a pickle"),
        ("m.pt", &zip("archive/data.pkl"), "a PyTorch file (a zip archive with a pickle)"),
        ("m.npz", &zip("weight.npy"), "a NumPy archive (.npz)"),
        ("m.zip", &zip("readme.txt"), "a zip archive"),
        ("m.npy", b"\x93NUMPY\x01\0v\0{'descr'", "a NumPy array (.npy)"),
        ("m.h5", b"\x89HDF\r\n\x1a\n\0\0\0\0", "an HDF5 file"),
        ("lfs", b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
        ("index", b"{\"weight_map\": {}}", "a JSON file"),
    ];
    for (name, content, kind) in files {
        let problem =
            refused(&folder.put(name, content), &format!("expected a safetensors file, found {kind}"));
        assert!(matches!(problem, StateProblem::Format { found, .. } if found.starts_with(kind)));
        // By the other door too, unless it is its own.
        if name != "index" {
            refused(&folder.put("m.json", content), &format!("expected a JSON file, found {kind}"));
        }
    }
    // And what opens it.
    let doors = [
        ("m.gguf", "which is opened by StateDict::open_gguf (feature `gguf`)"),
        ("m.npy", "which is opened by Tensor::open_npy (feature `npy`)"),
        ("m.npz", "which is opened by StateDict::open_npz (feature `npy`)"),
        ("m.pt", "which is opened by StateDict::open_torch (feature `torch`)"),
        ("m.pth", "whose torch.save writes one for StateDict::open_torch"),
        ("index", "which is opened by StateDict::open (feature `safetensors`) if its name ends in .json"),
    ];
    for (name, door) in doors {
        refused(&folder.file(name), door);
    }
    state(1).save(folder.file("m.json")).unwrap();
    refused(&folder.file("m.json"), "expected a JSON file, found a safetensors file");
    refused(&folder.put("config.json", r#"{"layers": 3}"#), "expected an object under \"weight_map\"");
}
