//! States whose names, shapes and types are not the module's.

use kiln::nn::{Embedding, Layer, Linear, ModuleExt, Sequential};
use kiln::optim::{Optimizer, Sgd, SgdOpts};
use kiln::{LoadOpts, LoadReport};

use super::*;

/// Two layers of `[2, 3]`, `0` and `1`.
fn net() -> Sequential {
    Sequential::new().push(Linear::without_bias(3, 2, ())).push(Linear::without_bias(3, 2, ()))
}

fn ramp(shape: &[usize]) -> Tensor {
    let numel: usize = shape.iter().product();
    Tensor::from_vec((0..numel).map(|i| i as f32).collect(), shape, ())
}

fn with(tensors: &[(&str, Tensor)]) -> StateDict {
    let mut state = StateDict::new();
    tensors.iter().for_each(|(name, tensor)| state.insert(*name, tensor).unwrap());
    state
}

fn values(net: &impl ModuleExt, name: &str) -> Vec<f32> {
    net.parameter(name).unwrap().get().to_vec().unwrap()
}

#[test]
fn a_fused_tensor_is_split_as_long_as_the_module_says_and_joined_again() {
    let fused = with(&[("h.0.qk.weight", ramp(&[4, 3]))]);
    let net = net();
    let opts = LoadOpts::default().split("h.{}.qk", 0, ["h.{}.q", "h.{}.k"]);
    let error = net.load_state_dict_with(&fused, opts).unwrap_err().to_string();
    assert!(error.contains("0.weight: expected f32[2, 3], found nothing"), "{error}");

    let opts = LoadOpts::default().split("h.0.qk", 0, ["0", "1"]);
    net.load_state_dict_with(&fused, opts).unwrap();
    assert_eq!(values(&net, "1.weight"), [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);

    let parts = with(&[("q", ramp(&[1, 3])), ("k", ramp(&[2, 3])), ("v", ramp(&[1, 3]))]);
    let whole = Linear::without_bias(3, 4, ());
    whole.load_state_dict_with(&parts, LoadOpts::default().join(["q", "k", "v"], 0, "weight")).unwrap();
    assert_eq!(values(&whole, "weight"), [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 1.0, 2.0]);
    // Not as long as needed: the error is of the part.
    let short = with(&[("h.weight", ramp(&[3, 3]))]);
    let error = net.load_state_dict_with(&short, LoadOpts::default().split("h", 0, ["0", "1"]));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("0.weight: expected f32[2, 3], found f32[1, 3]"), "{error}");
    let beyond = net.load_state_dict_with(&short, LoadOpts::default().split("h", 5, ["0", "1"]));
    assert!(beyond.unwrap_err().to_string().contains("found f32[3, 3]"));
}

#[test]
fn a_transposed_tensor_is_turned_before_it_is_split() {
    let stored = with(&[("c.weight", ramp(&[3, 4]))]);
    let net = net();
    let opts = LoadOpts::default().transpose("c").split("c", 0, ["0", "1"]);
    net.load_state_dict_with(&stored, opts).unwrap();
    assert_eq!(values(&net, "0.weight"), [0.0, 4.0, 8.0, 1.0, 5.0, 9.0]);
    assert_eq!(values(&net, "1.weight"), [2.0, 6.0, 10.0, 3.0, 7.0, 11.0]);
}

#[test]
fn a_transform_changes_what_is_stored_and_its_mistakes_name_their_line() {
    let stored = with(&[("0.weight", ramp(&[2, 3])), ("fused", ramp(&[3, 2, 1]))]);
    let net = net();
    let opts = LoadOpts::default().strict(false).transform("0.weight", |x| -x);
    net.load_state_dict_with(&stored, opts).unwrap();
    assert_eq!(values(&net, "0.weight"), [0.0, -1.0, -2.0, -3.0, -4.0, -5.0]);
    // Before a split; the shape is what counts.
    let opts = LoadOpts::default().strict(false).split("fused", 0, ["1.weight"]);
    let report = net.load_state_dict_with(&stored, opts.transform("fused", |x| x.reshape([2, 3]))).unwrap();
    assert_eq!(report.loaded, ["0.weight", "1.weight"]);
    let wrong = LoadOpts::default().transform("0.weight", |x| x.reshape([4, -1]));
    let text = net.load_state_dict_with(&stored, wrong).unwrap_err().to_string();
    assert!(text.contains("reshape") && text.contains(file!()), "{text}");
}

#[test]
fn one_tensor_of_the_file_is_two_of_the_module_by_rule_or_by_sharing() {
    let one = with(&[("embed.weight", ramp(&[2, 3]))]);
    let net = net();
    net.load_state_dict_with(&one, LoadOpts::default().rename("embed", "0").tie("1", "0")).unwrap();
    assert_eq!(values(&net, "0.weight"), values(&net, "1.weight"));

    struct Tied {
        embed: Embedding,
        head: Linear,
    }
    kiln::module!(Tied { embed, head });
    let embed = Embedding::new(2, 3, ());
    let mut head = Linear::without_bias(3, 2, ());
    head.weight = embed.weight.clone();
    let tied = Tied { embed, head };
    // Under any of its names, or under all of them.
    for names in [&["embed.weight"][..], &["head.weight"], &["embed.weight", "head.weight"]] {
        let state: Vec<_> = names.iter().map(|name| (*name, ramp(&[2, 3]) + 1.0)).collect();
        let report = tied.load_state_dict_with(&with(&state), LoadOpts::default()).unwrap();
        assert_eq!(report.loaded, ["embed.weight"]);
        assert_eq!(values(&tied, "embed.weight")[5], 6.0);
    }
}

#[test]
fn types_convert_only_when_told_to_and_only_within_their_kind() {
    let mut stored = with(&[("0.weight", ramp(&[2, 3]).half()), ("1.weight", ramp(&[2, 3]).double())]);
    let net = net();
    let refused = net.load_state_dict_with(&stored, LoadOpts::default()).unwrap_err().to_string();
    assert!(refused.contains("0.weight: expected f32[2, 3], found f16[2, 3]"), "{refused}");
    let convert = LoadOpts::default().convert(true);
    let report = net.load_state_dict_with(&stored, convert.clone()).unwrap();
    let told: Vec<_> = report.converted.iter().map(|c| (&c.name[..], &c.from[..], c.to)).collect();
    assert_eq!(told, [("0.weight", "F16", DType::F32), ("1.weight", "F64", DType::F32)]);
    assert_eq!(values(&net, "1.weight")[5], 5.0);

    stored = with(&[("0.weight", ramp(&[2, 3]).long())]);
    let e5m2 = kiln::RawTensor::new("F8_E5M2", [2, 3], vec![0x3c; 6]).unwrap();
    stored.insert_raw("1.weight", &e5m2).unwrap();
    let report = net.load_state_dict_with(&stored, convert.strict(false)).unwrap();
    assert_eq!(report.loaded, ["1.weight"]);
    assert_eq!(report.mismatched[0].to_string(), "0.weight: expected f32[2, 3], found i64[2, 3]");
    assert_eq!(values(&net, "1.weight"), [1.0; 6]);
}

#[test]
fn what_does_not_fit_is_reported_and_stays() {
    let stored = with(&[("0.weight", ramp(&[3, 3])), ("extra", ramp(&[1])), ("junk.a", ramp(&[1]))]);
    let net = net();
    let before = values(&net, "0.weight");
    let report = net.load_state_dict_with(&stored, LoadOpts::default().strict(false).ignore("junk")).unwrap();
    let LoadReport { loaded, missing, unexpected, mismatched, .. } = report;
    assert!(loaded.is_empty());
    assert_eq!((missing, unexpected), (vec!["1.weight".to_string()], vec!["extra".to_string()]));
    assert_eq!(mismatched.len(), 1);
    assert_eq!(values(&net, "0.weight"), before);
}

#[test]
fn names_that_are_near_and_names_that_meet_are_told() {
    let net = net();
    let near = with(&[("0.weigth", ramp(&[2, 3])), ("1.weight", ramp(&[2, 3]))]);
    let error = net.load_state_dict_with(&near, LoadOpts::default()).unwrap_err().to_string();
    assert!(error.contains("0.weight: expected f32[2, 3], found nothing; is it 0.weigth?"), "{error}");
    let meeting = LoadOpts::default().rename_with(|name| name.replace("weigth", "weight").replace('1', "0"));
    let error = net.load_state_dict_with(&near, meeting).unwrap_err();
    let text = "0.weight: expected one tensor that is renamed to it, found 0.weigth and 1.weight";
    assert!(error.to_string().contains(text), "{error}");
    let hollow = net.load_state_dict_with(&near, LoadOpts::default().rename("a.{}", "{}.{}"));
    let error = hollow.unwrap_err().to_string();
    assert!(error.contains("at most 1 holes, as \"a.{}\" has, found \"{}.{}\""), "{error}");
}

#[test]
fn a_mapped_file_is_used_where_it_lies_unless_copies_are_wanted() {
    const SIDE: usize = 2048;
    let folder = Folder::new("mapped");
    let path = folder.file("m.safetensors");
    with(&[("weight", Tensor::ones([SIDE, SIDE], ()))]).save(&path).unwrap();
    let net = with_device(Device::meta(), || Linear::without_bias(SIDE, SIDE, ()));
    let taken = |opts: LoadOpts| {
        let before = Device::cpu().memory_allocated().unwrap();
        net.load_with(&path, opts.device(Device::cpu())).unwrap();
        Device::cpu().memory_allocated().unwrap().saturating_sub(before)
    };
    let all = (SIDE * SIDE * 4) as u64;
    assert!(taken(LoadOpts::default()) < all / 2);
    // What is mapped is never written: a step of training makes new memory.
    let x = Tensor::ones([1, SIDE], ());
    assert_eq!(net.forward(&x).max(..).item::<f32>().unwrap(), SIDE as f32);
    let mut optimizer = Sgd::new(net.parameters(), SgdOpts::default().lr(1.0));
    net.forward(&x).sum(..).backward().unwrap();
    optimizer.step().unwrap();
    assert_eq!(net.forward(&x).max(..).item::<f32>().unwrap(), 0.0);
    assert_eq!(StateDict::open(&path).unwrap().get("weight").unwrap().min(..).item::<f32>().unwrap(), 1.0);
    drop(optimizer);
    assert!(taken(LoadOpts::default()) < all / 2);
    // Tests beside this one free a little.
    assert!(taken(LoadOpts::default().copy(true)) > all / 2);
}

#[test]
fn each_tensor_goes_to_its_device() {
    let stored = with(&[("0.weight", ramp(&[2, 3])), ("1.weight", ramp(&[2, 3]))]);
    let net = net();
    let null = Device::null();
    let opts =
        LoadOpts::default().device_of(move |name| if name == "1.weight" { null } else { Device::cpu() });
    net.load_state_dict_with(&stored, opts).unwrap();
    let devices: Vec<Device> = net.parameters().iter().map(|param| param.device()).collect();
    assert_eq!(devices, [Device::cpu(), null]);
}
