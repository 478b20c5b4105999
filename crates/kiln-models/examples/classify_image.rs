//! Says what is on an image.

use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use kiln::nn::{Layer, ModuleExt};
use kiln::no_grad;
use kiln::prelude::*;
use kiln_models::{Checkpoint, Config, Image, LoadModelOpts, ResNet, Vit, locate};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Says what is on an image, by a ResNet or a vision transformer.
#[derive(Parser)]
struct Arguments {
    /// A JPEG, PNG, WebP or PPM file; without one, a gradient.
    image: Option<PathBuf>,
    /// A folder as transformers saves it, such as resnet-50 or vit-base-patch16-224, or `hf://org/name`, which is
    /// downloaded (feature `hub`); without one, a ResNet-50 with random weights, which knows nothing.
    #[arg(long)]
    model: Option<PathBuf>,
    /// How many classes to name.
    #[arg(long, default_value_t = 5)]
    top: usize,
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
}

const RESNET_50: &str = r#"{"model_type": "resnet", "num_labels": 1000}"#;

/// What channels have on average, and how they spread, in the images of ImageNet.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const SPREAD: [f32; 3] = [0.229, 0.224, 0.225];

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (config, model, look) = open(arguments)?;
    let image = match &arguments.image {
        Some(path) => Image::open(path)?,
        None => {
            Image { width: 256, height: 256, bytes: (0..3 * 256 * 256).map(|i| (i / 768) as u8).collect() }
        }
    };
    let start = Instant::now();
    let _no_graph = no_grad();
    let size = config.count_or("image_size", 224)?;
    let pixels = look.normalized(&image.square(size, arguments.device));
    let scores = model.forward(&pixels.unsqueeze(0)).squeeze(0).softmax(0);
    let classes = scores.shape()[..].first().copied().unwrap_or(0);
    let (shares, best) = scores.topk(arguments.top.min(classes), TopkOpts::default());
    let best = best.to_dtype(DType::I64);
    realize(&[&shares, &best])?;
    let names = config.section("id2label")?;
    for (share, class) in shares.to_vec::<f32>()?.into_iter().zip(best.to_vec::<i64>()?) {
        let name = names.as_ref().map(|names| names.text(&class.to_string())).transpose()?;
        println!("{:6.2} %  {}", 100.0 * share, name.unwrap_or_else(|| format!("class {class}")));
    }
    eprintln!(
        "[{} by {} pixels on {} in {:.2?}]",
        image.width,
        image.height,
        arguments.device,
        start.elapsed()
    );
    Ok(())
}

/// How a model wants channels.
struct Look {
    mean: Vec<f32>,
    spread: Vec<f32>,
}

impl Look {
    /// What a folder's `preprocessor_config.json` says, if it has one.
    fn of(folder: &std::path::Path) -> Result<Look, Failure> {
        let path = folder.join("preprocessor_config.json");
        let config = path.exists().then(|| Config::open(path)).transpose()?;
        let read = |key: &str, default: [f32; 3]| -> Result<Vec<f32>, Failure> {
            let given = config.as_ref().map(|config| config.numbers(key)).transpose()?.flatten();
            let given = given.filter(|given| given.len() == 3);
            Ok(given
                .map_or(default.to_vec(), |given| given.into_iter().map(|number| number as f32).collect()))
        };
        Ok(Look { mean: read("image_mean", MEAN)?, spread: read("image_std", SPREAD)? })
    }

    fn normalized(&self, pixels: &Tensor) -> Tensor {
        let channels = |values: &[f32]| Tensor::from_vec(values.to_vec(), [3, 1, 1], pixels.device());
        (pixels - channels(&self.mean)) / channels(&self.spread)
    }
}

fn open(arguments: &Arguments) -> Result<(Config, Box<dyn Layer>, Look), Failure> {
    let Some(folder) = &arguments.model else {
        let config = Config::parse("resnet-50", RESNET_50)?;
        let model = ResNet::new(&config, arguments.device)?;
        model.eval();
        return Ok((config, Box::new(model), Look::of("".as_ref())?));
    };
    let checkpoint = Checkpoint::open(locate(folder)?)?;
    let opts = LoadModelOpts::default().device(arguments.device);
    let model: Box<dyn Layer> = if checkpoint.config().text("model_type")? == "vit" {
        Box::new(Vit::load(&checkpoint, opts)?)
    } else {
        let model = ResNet::load(&checkpoint, opts)?;
        model.eval();
        Box::new(model)
    };
    Ok((checkpoint.config().clone(), model, Look::of(checkpoint.path())?))
}
