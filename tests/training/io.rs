//! Saving and loading: what is saved comes back bit by bit, and what does not
//! fit changes nothing.
use std::fs;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use kiln::nn::{BatchNorm, Dropout, Layer, Linear, ModuleExt, Sequential};
use kiln::optim::{
    Adam, AdamOpts, Cosine, Optimizer, Plateau, RmsProp, RmsPropOpts, Scheduler, Sgd, SgdOpts,
};
use kiln::prelude::*;
use kiln::{Error, Generator, StateDict};

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kiln-io-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn model() -> Sequential {
    Sequential::new()
        .push(Linear::new(6, 5, ()))
        .push(BatchNorm::new(5, ()))
        .then(Tensor::relu)
        .push(Linear::new(5, 3, ()))
}

fn input() -> Tensor {
    Tensor::linspace(-1.0, 1.0, 24, ()).reshape([4, 6])
}

/// Everything a module holds, as bits.
fn held(model: &Sequential) -> Vec<(String, Vec<u32>)> {
    let state = model.state_dict().unwrap();
    let bits = |t: &Tensor| t.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
    state.iter().map(|(name, tensor)| (name.to_string(), bits(tensor))).collect()
}

/// Loading fails with a text of all these parts, and changes nothing.
#[track_caller]
fn refused(model: &Sequential, path: &Path, parts: &[&str]) {
    let before = held(model);
    let text = model.load(path, Device::cpu()).unwrap_err().to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    assert_eq!(held(model), before);
}

#[test]
fn a_model_built_on_meta_predicts_what_the_saved_one_did() {
    let folder = Folder::new("meta");
    let saved = model();
    saved.forward(&input()).realize().unwrap(); // moves the running statistics
    saved.eval();
    saved.save(folder.file("m.safetensors")).unwrap();
    let loaded = with_device(Device::meta(), model);
    loaded.load(folder.file("m.safetensors"), Device::cpu()).unwrap();
    loaded.eval();
    assert_eq!(loaded.check_device().unwrap(), Device::cpu());
    assert_eq!(held(&loaded), held(&saved));
    let outputs = [&saved, &loaded].map(|model| model.forward(&input()).to_vec::<f32>().unwrap());
    assert_eq!(outputs[0], outputs[1]);
    // The parameters are their own, not the file's, and train.
    fs::remove_file(folder.file("m.safetensors")).unwrap();
    loaded.forward(&input()).sum(..).backward().unwrap();
    let mut optimizer = Sgd::new(loaded.parameters(), SgdOpts::default().lr(0.1));
    optimizer.step().unwrap();
    assert_ne!(held(&loaded), held(&saved));
}

#[test]
fn every_type_comes_back_bit_by_bit() {
    let folder = Folder::new("types");
    let mut state = StateDict::new();
    let shape = [2, 2];
    let odd = f32::from_bits(0x7fc0_1234);
    state.insert("f32", &Tensor::from_vec(vec![1.5f32, -0.0, odd, 1e-45], shape, ())).unwrap();
    state.insert("f64", &Tensor::from_vec(vec![0.1f64, f64::INFINITY, -2.0, 5e-324], shape, ())).unwrap();
    state
        .insert("f16", &Tensor::from_vec([0.5, -1.0, 6e4, 6e-8].map(f16::from_f32).to_vec(), shape, ()))
        .unwrap();
    state
        .insert("bf16", &Tensor::from_vec([0.5, -1.0, 3e38, 1e-40].map(bf16::from_f32).to_vec(), shape, ()))
        .unwrap();
    state.insert("i64", &Tensor::from_vec(vec![i64::MIN, -1, 0, i64::MAX], shape, ())).unwrap();
    state.insert("i32", &Tensor::from_vec(vec![i32::MIN, -1, 0, i32::MAX], shape, ())).unwrap();
    state.insert("u32", &Tensor::from_vec(vec![0, 1, 2, u32::MAX], shape, ())).unwrap();
    state.insert("u8", &Tensor::from_vec(vec![0u8, 1, 2, 255], shape, ())).unwrap();
    state.insert("bool", &Tensor::from_vec(vec![true, false, false, true], shape, ())).unwrap();
    state.insert("none", &Tensor::zeros([0, 3], ())).unwrap();
    state.insert("one", &Tensor::scalar(7, ())).unwrap();
    // A view that does not lie in memory as it is saved.
    state.insert("turned", &Tensor::arange(0, 6, 1, ()).reshape([2, 3]).t()).unwrap();
    state.save(folder.file("s.safetensors")).unwrap();
    let opened = StateDict::open(folder.file("s.safetensors")).unwrap();
    assert_eq!(opened.len(), state.len());
    for ((name, tensor), (other, found)) in state.iter().zip(opened.iter()) {
        assert_eq!((name, tensor.dtype(), tensor.shape()), (other, found.dtype(), found.shape()));
    }
    opened.save(folder.file("again.safetensors")).unwrap();
    let bytes = ["s.safetensors", "again.safetensors"].map(|name| fs::read(folder.file(name)).unwrap());
    assert_eq!(bytes[0], bytes[1]);
    let turned = opened.get("turned").unwrap() + 1;
    assert_eq!(turned.to_vec::<i64>().unwrap(), [1, 4, 2, 5, 3, 6]);
    assert_eq!(opened.get("f32").unwrap().to_vec::<f32>().unwrap()[2].to_bits(), odd.to_bits());
    assert!(opened.get("bool").unwrap().to_vec::<bool>().unwrap()[3]);
}

#[test]
fn one_error_lists_all_that_does_not_fit() {
    let folder = Folder::new("fit");
    let other = Sequential::new()
        .push(Linear::without_bias(6, 4, ()))
        .push(BatchNorm::new(5, ()))
        .then(Tensor::relu)
        .push(Linear::new(5, 3, ()))
        .push(Linear::without_bias(3, 3, ()));
    other.parameters()[3].set(&Tensor::ones([3, 5], ())).unwrap();
    let mut state = StateDict::new();
    for (name, tensor) in other.state_dict().unwrap().iter() {
        let saved = if name == "3.bias" { tensor.half() } else { tensor.clone() };
        state.insert(name, &saved).unwrap();
    }
    state.save(folder.file("m.safetensors")).unwrap();
    let problems = [
        "m.safetensors cannot be loaded",
        "0.weight: expected f32[5, 6], found f32[4, 6]",
        "0.bias: expected f32[5], found nothing",
        "3.bias: expected f32[3], found f16[3]",
        "4.weight: expected nothing, found f32[3, 3]",
    ];
    refused(&model(), &folder.file("m.safetensors"), &problems);
    let error = model().load_state_dict(&state, Device::cpu()).unwrap_err();
    assert!(matches!(error, Error::State { problems, .. } if problems.len() == 4));
    refused(&model(), &folder.file("absent.safetensors"), &["absent.safetensors"]);
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let folder = Folder::new("cut");
    let (path, model) = (folder.file("m.safetensors"), model());
    model.save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(model.load(&path, Device::cpu()).is_err(), "{length} of {} bytes", whole.len());
    }
    // Cut short, it still tells what would not fit.
    let other = Sequential::new().push(Linear::new(6, 5, ()));
    fs::write(&path, &whole[..whole.len() - 4]).unwrap();
    let text = other.load(&path, Device::cpu()).unwrap_err().to_string();
    assert!(text.contains("bytes of data") && text.contains("3.weight: expected nothing"), "{text}");
    fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
    refused(&model, &path, &["bytes of data"]);
}

#[test]
fn a_damaged_header_is_refused_or_means_the_same() {
    let folder = Folder::new("damaged");
    let (path, model) = (folder.file("m.safetensors"), model());
    model.save(&path).unwrap();
    let (before, whole) = (held(&model), fs::read(&path).unwrap());
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    for at in 0..header {
        for flip in [1, 0x20, 0x80] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            fs::write(&path, damaged).unwrap();
            // Either an error, or a change that JSON does not mean (spaces).
            let _ = model.load(&path, Device::cpu());
            assert_eq!(held(&model), before, "byte {at} with {flip}");
        }
    }
    let mut state = StateDict::new();
    state.insert("flag", &Tensor::from(true)).unwrap();
    state.save(&path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() = 2;
    fs::write(&path, bytes).unwrap();
    let text = StateDict::open(&path).unwrap_err().to_string();
    assert!(text.contains("flag is of truth values"), "{text}");
}

#[test]
fn several_files_are_one_state() {
    let folder = Folder::new("shards");
    let saved = model();
    saved.state_dict().unwrap().save_sharded(folder.file("m.safetensors"), 80).unwrap();
    let files = folder.names();
    assert_eq!(files.len(), 5, "{files:?}");
    assert!(files[0].starts_with("m-") && files[0].ends_with("-00001-of-00004.safetensors"), "{files:?}");
    let index = folder.file("m.safetensors.index.json");
    let loaded = with_device(Device::meta(), model);
    loaded.load(&index, Device::cpu()).unwrap();
    assert_eq!(held(&loaded), held(&saved));

    // One file is cut short, another is gone, and the model does not fit.
    let first = folder.file(&files[0]);
    let bytes = fs::read(&first).unwrap();
    fs::write(&first, &bytes[..bytes.len() - 1]).unwrap();
    fs::remove_file(folder.file(&files[1])).unwrap();
    let other = Sequential::new()
        .push(Linear::new(6, 5, ()))
        .push(BatchNorm::new(5, ()))
        .then(Tensor::relu)
        .push(Linear::new(5, 2, ()));
    let parts = [files[0].as_str(), "bytes of data", &files[1], "3.weight: expected f32[2, 5]"];
    refused(&other, &index, &parts);
    let text = other.load(&index, Device::cpu()).unwrap_err().to_string();
    assert!(!text.contains("found nothing"), "what the lost file held is not missing: {text}");
    fs::write(&index, r#"{"weight_map": {"0.weight": "../m.safetensors"}}"#).unwrap();
    refused(&saved, &index, &["expected a file beside the index"]);
    fs::write(&index, "{").unwrap();
    refused(&saved, &index, &["m.safetensors.index.json"]);
}

#[test]
fn a_save_that_fails_leaves_the_old_file_and_nothing_else() {
    let folder = Folder::new("atomic");
    let saved = model();
    saved.save(folder.file("m.safetensors")).unwrap();
    let before = fs::read(folder.file("m.safetensors")).unwrap();
    let mut state = saved.state_dict().unwrap();
    state.insert("nowhere", &Tensor::ones([2], Device::meta())).unwrap();
    assert!(state.save(folder.file("m.safetensors")).is_err());
    assert_eq!(fs::read(folder.file("m.safetensors")).unwrap(), before);
    fs::create_dir(folder.file("taken")).unwrap();
    assert!(matches!(saved.save(folder.file("taken")), Err(Error::File { .. })));
    assert!(saved.save(folder.file("absent/m.safetensors")).is_err());
    assert_eq!(folder.names(), ["m.safetensors", "taken"]);
    assert!(state.insert("nowhere", &Tensor::ones([2], ())).is_err());
}

#[test]
fn a_device_that_is_not_there_changes_nothing() {
    let folder = Folder::new("device");
    let model = model();
    model.save(folder.file("m.safetensors")).unwrap();
    let before = held(&model);
    assert!(model.load(folder.file("m.safetensors"), Device::cuda(60_000)).is_err());
    assert_eq!(held(&model), before);
    assert_eq!(model.check_device().unwrap(), Device::cpu());
}

/// Losses of five steps each before and after a stop, which is a saved state
/// that new objects load if `stop` is set.
fn losses<O: Optimizer>(name: &str, optimizer: impl Fn(&Sequential) -> O, stop: bool) -> Vec<u32> {
    kiln::manual_seed(3);
    let folder = Folder::new(name);
    let build = || model().push(Dropout::new(0.5)).push(Linear::new(3, 1, ()));
    let mut losses = Vec::new();
    let mut run = |model: &Sequential, optimizer: &mut O, scheduler: &mut Scheduler<Cosine>| {
        for _ in 0..5 {
            optimizer.zero_grad();
            let loss = (model.forward(&input()) - 1.0).square().mean(..);
            loss.backward().unwrap();
            optimizer.step().unwrap();
            scheduler.step(optimizer);
            losses.push(loss.item::<f32>().unwrap().to_bits());
        }
    };
    let schedule = Cosine { steps: 12, floor: 0.0 };
    let model = build();
    let mut own = optimizer(&model);
    let mut scheduler = Scheduler::new(&mut own, schedule);
    run(&model, &mut own, &mut scheduler);
    if !stop {
        run(&model, &mut own, &mut scheduler);
        return losses;
    }
    let mut state = StateDict::new();
    state.extend("model", model.state_dict().unwrap()).unwrap();
    state.extend("optimizer", own.state_dict().unwrap()).unwrap();
    state.extend("scheduler", scheduler.state_dict().unwrap()).unwrap();
    state.extend("generator", kiln::generator().state_dict().unwrap()).unwrap();
    state.save(folder.file("run.safetensors")).unwrap();

    kiln::manual_seed(99);
    let state = StateDict::open(folder.file("run.safetensors")).unwrap();
    let model = with_device(Device::meta(), build);
    let mut own = optimizer(&model);
    let mut scheduler = Scheduler::new(&mut own, schedule);
    model.load_state_dict(&state.part("model"), Device::cpu()).unwrap();
    own.load_state_dict(&state.part("optimizer")).unwrap();
    scheduler.load_state_dict(&state.part("scheduler")).unwrap();
    kiln::set_generator(Generator::from_state_dict(&state.part("generator")).unwrap());
    run(&model, &mut own, &mut scheduler);
    losses
}

#[test]
fn a_resumed_run_has_the_same_losses_bit_by_bit() {
    let adam = |m: &Sequential| Adam::new(m.parameters(), AdamOpts::default().lr(0.05));
    assert_eq!(losses("adam", adam, true), losses("adam", adam, false));
    let sgd =
        |m: &Sequential| Sgd::new(m.parameters(), SgdOpts::default().lr(0.1).momentum(0.9).dampening(0.1));
    assert_eq!(losses("sgd", sgd, true), losses("sgd", sgd, false));
    let rms = |m: &Sequential| RmsProp::new(m.parameters(), RmsPropOpts::default().momentum(0.5));
    assert_eq!(losses("rms", rms, true), losses("rms", rms, false));
}

#[test]
fn an_optimizer_takes_only_its_own_state() {
    let model = model();
    let adam = Adam::new(model.parameters(), AdamOpts::default());
    let mut sgd = Sgd::new(model.parameters(), SgdOpts::default().momentum(0.9).lr(0.25));
    let text = sgd.load_state_dict(&adam.state_dict().unwrap()).unwrap_err().to_string();
    for part in [
        "groups.0.params.0.exp_avg: expected nothing, found f32[5, 6]",
        "groups.0.params.5.momentum_buffer: expected f32[3], found nothing",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(sgd.lr(0), 0.25);
    let impatient = || {
        let mut plateau = Plateau::default();
        plateau.patience = 0;
        plateau
    };
    let mut plateau = impatient();
    plateau.step(1.0, &mut sgd);
    let mut resumed = impatient();
    resumed.load_state_dict(&plateau.state_dict().unwrap()).unwrap();
    resumed.step(1.0, &mut sgd);
    assert_eq!(sgd.lr(0), 0.025);
    let error = Generator::from_state_dict(&StateDict::new()).unwrap_err().to_string();
    assert!(error.contains("seed: expected i64[], found nothing"), "{error}");
}
