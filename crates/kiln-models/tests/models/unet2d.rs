//! U-Nets of diffusers (`record_unet2d.py`).

use kiln::nn::ModuleExt;
use kiln::prelude::*;
use kiln::{StateDict, no_grad};
use kiln_models::{Checkpoint, Config, LoadModelOpts, UNet2d, UNet2dInput};

use crate::record::{Recorded, assert_near, devices, recorded};
use crate::trained::wave;

/// What is to be taken off the script's images.
fn denoised(name: &str, model: &UNet2d, device: Device) -> Tensor {
    let context = wave([2, 5, 12], device);
    let images = match name {
        "ddpm" => wave([2, 3, 8, 8], device),
        "stable_diffusion" => wave([2, 4, 8, 7], device),
        _ => wave([2, 4, 8, 8], device),
    };
    let sizes = Tensor::from([[64f32, 48.0, 0.0, 4.0, 64.0, 64.0], [32.0, 32.0, 8.0, 0.0, 64.0, 64.0]]);
    let input = match name {
        "ddpm" => UNet2dInput::default(),
        "stable_diffusion" => UNet2dInput::default().context(&context),
        _ => UNet2dInput::default().context(&context).pooled(&wave([2, 5], device)).sizes(&sizes.to(device)),
    };
    model.denoise(&images, &Tensor::from([3i64, 250]).to(device), &input)
}

const NAMES: [&str; 3] = ["ddpm", "stable_diffusion", "stable_diffusion_xl"];

/// A folder as diffusers saves it.
fn saved(name: &str, record: &Recorded) -> std::path::PathBuf {
    let folder = record.saved(name);
    std::fs::rename(folder.join("model.safetensors"), folder.join("diffusion_pytorch_model.safetensors"))
        .unwrap();
    folder
}

#[test]
fn unets_compute_what_diffusers_computes() {
    let _no_graph = no_grad();
    for name in NAMES {
        let record = recorded(name);
        let checkpoint = Checkpoint::open(saved(name, &record)).unwrap();
        for device in devices() {
            let model = UNet2d::load(&checkpoint, LoadModelOpts::default().device(device)).unwrap();
            assert_near(&denoised(name, &model, device), &record.output, &format!("{name} on {device}"));
        }
    }
}

#[test]
fn a_time_may_be_one_for_all_images() {
    for name in ["ddpm", "stable_diffusion_xl"] {
        let model = UNet2d::new(&Config::parse("config.json", &recorded(name).text).unwrap(), ()).unwrap();
        let (images, context) = (
            wave([2, if name == "ddpm" { 3 } else { 4 }, 8, 8], Device::cpu()),
            wave([2, 5, 12], Device::cpu()),
        );
        let input = UNet2dInput::default().context(&context);
        let input = input.pooled(&wave([2, 5], Device::cpu())).sizes(&wave([2, 6], Device::cpu()));
        let noise = |times: Tensor| model.denoise(&images, &times, &input).to_vec::<f32>().unwrap();
        let each = noise(Tensor::from([7i64, 7]));
        assert_eq!(noise(Tensor::from([7i64])), each);
        assert_eq!(noise(Tensor::from([7i64]).squeeze(0)), each);
    }
}

/// What a missing entry means in diffusers: heads of eight channels, and one head where it is null.
#[test]
fn heads_that_are_not_given_have_eight_channels() {
    let text = recorded("ddpm").text;
    let given = "\"attention_head_dim\":4";
    assert!(text.contains(given));
    let noise = |entry: &str| {
        let config = Config::parse("config.json", &text.replace(&format!("{given},"), entry)).unwrap();
        let model = UNet2d::new(&config, ()).unwrap();
        model.load_state_dict_with(&recorded("ddpm").state(), UNet2d::load_opts()).unwrap();
        denoised("ddpm", &model, Device::cpu()).to_vec::<f32>().unwrap()
    };
    // Where there is attention, 16 channels.
    let heads = |width: u32| noise(&format!("\"attention_head_dim\":{width},"));
    assert_eq!(noise(""), heads(8));
    assert_eq!(noise("\"attention_head_dim\":null,"), noise("\"attention_head_dim\":16,"));
    assert_ne!(noise(""), noise("\"attention_head_dim\":null,"));
}

/// As files before 2023 have it: other names of attention.
#[test]
fn old_names_of_attention_are_read() {
    let record = recorded("ddpm");
    let mut state = StateDict::new();
    for (name, tensor) in &record.weights {
        let names = [
            (".to_q.", ".query."),
            (".to_k.", ".key."),
            (".to_v.", ".value."),
            (".to_out.0.", ".proj_attn."),
        ];
        let old = names.iter().fold(name.clone(), |name, (new, old)| name.replace(new, old));
        state.insert(old, tensor).unwrap();
    }
    let model = UNet2d::new(&Config::parse("config.json", &record.text).unwrap(), ()).unwrap();
    model.load_state_dict_with(&state, UNet2d::load_opts()).unwrap();
    assert_near(&denoised("ddpm", &model, Device::cpu()), &record.output, "old names");
}

#[test]
fn what_is_not_computed_is_an_error() {
    let text = recorded("stable_diffusion").text;
    for (from, to, expected) in [
        ("\"UNet2DConditionModel\"", "\"UNet3D\"", "_class_name to be UNet2DModel or UNet2DConditionModel"),
        (
            "\"CrossAttnDownBlock2D\"",
            "\"AttnDownBlock2D\"",
            "down_block_types to be blocks without attention or",
        ),
        (
            "\"block_out_channels\":[8,16]",
            "\"block_out_channels\":[]",
            "block_out_channels to be from 1 to 1024",
        ),
        ("\"UpBlock2D\",", "", "up_block_types to be 2 of them, found 1"),
        (
            "\"attention_head_dim\":2",
            "\"attention_head_dim\":[2]",
            "attention_head_dim to be 2 of them, found 1",
        ),
        ("\"attention_head_dim\":2", "\"attention_head_dim\":0", "attention_head_dim to be from 1 to 1024"),
        ("\"act_fn\":\"silu\"", "\"act_fn\":\"gelu\"", "act_fn to be \"silu\", found \"gelu\""),
        ("\"class_embed_type\":null", "\"class_embed_type\":\"timestep\"", "class_embed_type to be null"),
        ("\"addition_embed_type\":null", "\"addition_embed_type\":\"image\"", "to be text_time, found image"),
        (
            "\"only_cross_attention\":false",
            "\"only_cross_attention\":true",
            "only_cross_attention to be false",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let config = Config::parse("config.json", &text.replace(from, to)).unwrap();
        let error = UNet2d::new(&config, Device::meta()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    for (name, input, expected) in [
        ("stable_diffusion", UNet2dInput::default(), "expected a context, found none"),
        (
            "stable_diffusion_xl",
            UNet2dInput::default().context(&wave([2, 5, 12], Device::cpu())),
            "pooled and sizes",
        ),
    ] {
        let model = UNet2d::new(&Config::parse("config.json", &recorded(name).text).unwrap(), ()).unwrap();
        let noise = model.denoise(&wave([2, 4, 8, 8], Device::cpu()), &Tensor::from([1i64, 2]), &input);
        let error = noise.check().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("unet2d.rs"), "{error}");
    }
}
