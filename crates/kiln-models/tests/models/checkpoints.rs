//! Folders of models: which files are weights, and what stands beside them.

use std::path::{Path, PathBuf};

use kiln::StateDict;
use kiln_models::{Checkpoint, LoadModelOpts, Whisper};

use crate::record::{devices, recorded};

/// A folder with a configuration and these files, which are copies of those that PyTorch's tests read.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("checkpoints/{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.json"), r#"{"model_type": "bert"}"#).unwrap();
    let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/files/recorded");
    for (name, file) in files {
        std::fs::copy(there.join(file), folder.join(name)).unwrap();
    }
    folder
}

fn names(checkpoint: &Checkpoint) -> Vec<String> {
    checkpoint.state().iter().map(|(name, _)| name.to_string()).collect()
}

#[test]
fn weights_are_pytorch_files_where_there_are_no_others() {
    let one = folder("torch", &[("pytorch_model.bin", "protocol4.pt")]);
    assert_eq!(names(&Checkpoint::open(&one).unwrap()), ["x"]);
    assert_eq!(names(&Checkpoint::open(one.join("pytorch_model.bin")).unwrap()), ["x"]);

    let parts = [("pytorch_model-1.bin", "protocol4.pt"), ("pytorch_model-2.bin", "alone.pt")];
    let divided = folder("torch_parts", &parts);
    let index = r#"{"weight_map": {"x": "pytorch_model-1.bin", "tensor": "pytorch_model-2.bin"}}"#;
    std::fs::write(divided.join("pytorch_model.bin.index.json"), index).unwrap();
    assert_eq!(names(&Checkpoint::open(&divided).unwrap()), ["tensor", "x"]);
    std::fs::remove_file(divided.join("pytorch_model-2.bin")).unwrap();
    let error = Checkpoint::open(&divided).unwrap_err().to_string();
    assert!(error.contains("pytorch_model-2.bin"), "{error}");

    // Safetensors go before.
    let mut state = StateDict::new();
    state.insert("y", &kiln::Tensor::zeros([2], ())).unwrap();
    state.save(one.join("model.safetensors")).unwrap();
    assert_eq!(names(&Checkpoint::open(&one).unwrap()), ["y"]);
    let error = Checkpoint::open(folder("empty", &[])).unwrap_err().to_string();
    assert!(error.contains("model.safetensors"), "{error}");
}

/// New files of Whisper say there which tokens it never writes.
#[test]
fn what_a_configuration_lacks_is_taken_from_that_of_generation() {
    let record = recorded("whisper");
    let folder = record.saved("whisper_generation");
    let moved = r#""suppress_tokens":[5]"#;
    assert!(record.text.contains(moved));
    let config = record.text.replace(moved, r#""suppress_tokens":null"#);
    std::fs::write(folder.join("config.json"), config).unwrap();
    std::fs::write(folder.join("generation_config.json"), format!(r#"{{{moved}, "eos_token_id": 7}}"#))
        .unwrap();
    let checkpoint = Checkpoint::open(&folder).unwrap();
    for device in devices() {
        let model = Whisper::load(&checkpoint, LoadModelOpts::default().device(device)).unwrap();
        assert_eq!((&model.config().suppress[..], model.config().end), (&[5][..], 2));
    }
}
