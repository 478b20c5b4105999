//! ResNet.

use kiln::LoadOpts;
use kiln::nn::{BatchNorm, Conv2d, Layer, Linear};
use kiln::prelude::{ConvOpts, MaxPoolOpts};
use kiln::tensor::{Place, Tensor};

use crate::config::Config;
use crate::error::Result;

/// A residual network (He et al. 2015) that classifies images: `[n, 3, h, w]` to `[n, classes]`.
///
/// # Examples
/// ```
/// use kiln::nn::{Layer, ModuleExt};
/// use kiln::prelude::*;
/// use kiln_models::{Config, ResNet};
/// let config = Config::parse("config.json", r#"{
///     "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2],
///     "layer_type": "basic", "num_labels": 10
/// }"#)?;
/// let model = ResNet::new(&config, ())?;
/// model.eval();
/// assert_eq!(model.forward(&Tensor::zeros([2, 3, 32, 32], ())).dims()?, [2, 10]);
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Debug)]
pub struct ResNet {
    /// The first convolution, before the pool.
    pub stem: ConvNorm,
    /// Blocks by stage; each stage but the first halves height and width.
    pub stages: Vec<Vec<ResNetBlock>>,
    /// Of the channels' means.
    pub classifier: Linear,
}
kiln::module!(ResNet { stem, stages, classifier });

/// Convolutions whose result is added to what comes in.
#[derive(Debug)]
pub struct ResNetBlock {
    /// Two of 3 by 3, or 1 by 1, 3 by 3 and 1 by 1.
    pub convs: Vec<ConvNorm>,
    /// Where channels or sizes change.
    pub shortcut: Option<ConvNorm>,
}
kiln::module!(ResNetBlock { convs, shortcut });

/// A convolution without a bias, and batch normalization.
#[derive(Debug)]
pub struct ConvNorm {
    /// The convolution.
    pub convolution: Conv2d,
    /// Its normalization.
    pub normalization: BatchNorm,
}
kiln::module!(ConvNorm { convolution, normalization });

/// What a configuration says.
struct Shape {
    /// Channels by stage.
    widths: Vec<usize>,
    depths: Vec<usize>,
    /// 1 by 1, 3 by 3 and 1 by 1, on a quarter of the channels.
    bottleneck: bool,
    /// The first convolution of a bottleneck has the stride, not the second.
    stride_first: bool,
    shrink_first_stage: bool,
}

impl Shape {
    fn read(config: &Config) -> Result<Shape> {
        let lists = |key, default: [usize; 4]| -> Result<Vec<usize>> {
            Ok(config.counts(key)?.unwrap_or_else(|| default.to_vec()))
        };
        let (widths, depths) =
            (lists("hidden_sizes", [256, 512, 1024, 2048])?, lists("depths", [3, 4, 6, 3])?);
        let small = |depth: &usize| (1..=1024).contains(depth);
        if widths.len() != depths.len() || widths.len() > 64 || !depths.iter().all(small) {
            let expected = format!("from 1 to 1024 for each of {} stages", widths.len());
            return Err(config.wrong("depths", expected, format!("{depths:?}")));
        }
        let bottleneck = match config.text_or("layer_type", "bottleneck")?.as_str() {
            "bottleneck" => true,
            "basic" => false,
            other => return Err(config.wrong("layer_type", "bottleneck or basic", other)),
        };
        Ok(Shape {
            widths,
            depths,
            bottleneck,
            stride_first: config.flag_or("downsample_in_bottleneck", false)?,
            shrink_first_stage: config.flag_or("downsample_in_first_stage", false)?,
        })
    }
}

impl ResNet {
    /// A model of new weights. On [`Device::meta`](kiln::Device::meta) it takes no memory until weights are
    /// loaded.
    ///
    /// # Errors
    /// An entry that is missing or wrong, or another kind of model.
    #[track_caller]
    pub fn new(config: &Config, place: impl Into<Place>) -> Result<ResNet> {
        config.check_kind("resnet")?;
        let (shape, place) = (Shape::read(config)?, place.into());
        let first = config.count_or("embedding_size", 64)?;
        let mut inputs = first;
        let mut stages = Vec::new();
        for (stage, (&width, &depth)) in shape.widths.iter().zip(&shape.depths).enumerate() {
            let stride = if stage > 0 || shape.shrink_first_stage { 2 } else { 1 };
            let block = |i: usize| {
                let [inputs, stride] = if i == 0 { [inputs, stride] } else { [width, 1] };
                ResNetBlock::new([inputs, width], stride, &shape, place)
            };
            stages.push((0..depth).map(block).collect());
            inputs = width;
        }
        Ok(ResNet {
            stem: ConvNorm::new([config.count_or("num_channels", 3)?, first], 7, 2, place),
            stages,
            classifier: Linear::new(inputs, config.classes()?, place),
        })
    }

    /// How to load files with the names of `transformers`, or of `torchvision` and `timm`.
    ///
    /// # Examples
    /// ```
    /// let opts = kiln_models::ResNet::load_opts();
    /// let name = opts.renamed("resnet.encoder.stages.0.layers.1.layer.2.convolution.weight");
    /// assert_eq!(name, "stages.0.1.convs.2.convolution.weight");
    /// let name = opts.renamed("layer1.1.bn3.weight");
    /// assert_eq!(name, "stages.0.1.convs.2.normalization.weight");
    /// ```
    pub fn load_opts() -> LoadOpts {
        LoadOpts::default()
            .rename_with(of_torchvision)
            .strip_prefix("resnet")
            .rename_all([
                ("embedder.embedder", "stem"),
                ("encoder.stages.{}.layers.{}.layer.{}", "stages.{}.{}.convs.{}"),
                ("encoder.stages.{}.layers.{}.shortcut", "stages.{}.{}.shortcut"),
                ("classifier.1", "classifier"),
            ])
            // Counts of batches, which nothing reads.
            .ignore("stem.normalization.num_batches_tracked")
            .ignore("stages.{}.{}.convs.{}.normalization.num_batches_tracked")
            .ignore("stages.{}.{}.shortcut.normalization.num_batches_tracked")
    }
}

/// A name of `torchvision` as `transformers` has it; others stay.
fn of_torchvision(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let conv = |part: &str| {
        let (kind, number) = part.split_at(part.len().saturating_sub(1));
        let number: usize = number.parse().ok()?;
        let kind =
            [("conv", "convolution"), ("bn", "normalization")].into_iter().find(|(own, _)| *own == kind)?.1;
        Some((number.checked_sub(1)?, kind))
    };
    let found = match parts[..] {
        [part, last] if part.starts_with("conv") || part.starts_with("bn") => {
            conv(part).map(|(_, kind)| format!("embedder.embedder.{kind}.{last}"))
        }
        ["fc", last] => Some(format!("classifier.1.{last}")),
        [stage, block, ref rest @ ..] if stage.starts_with("layer") => {
            let stage = stage["layer".len()..].parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let within = match rest {
                ["downsample", "0", last] => Some(format!("shortcut.convolution.{last}")),
                ["downsample", "1", last] => Some(format!("shortcut.normalization.{last}")),
                [part, last] => conv(part).map(|(number, kind)| format!("layer.{number}.{kind}.{last}")),
                _ => None,
            };
            stage.zip(within).map(|(stage, within)| format!("encoder.stages.{stage}.layers.{block}.{within}"))
        }
        _ => None,
    };
    found.unwrap_or_else(|| name.into())
}

impl Layer for ResNet {
    /// Scores `[n, classes]` of images `[n, 3, h, w]`.
    #[track_caller]
    fn forward(&self, images: &Tensor) -> Tensor {
        let x = self.stem.forward(images).relu();
        let x = x.max_pool2d([3, 3], MaxPoolOpts::default().stride(2).padding(1));
        let x = self.stages.iter().flatten().fold(x, |x, block| block.forward(&x));
        self.classifier.forward(&x.mean([-2, -1]))
    }
}

impl ResNetBlock {
    #[track_caller]
    fn new([inputs, width]: [usize; 2], stride: usize, shape: &Shape, place: Place) -> ResNetBlock {
        let conv = |channels, kernel, stride| ConvNorm::new(channels, kernel, stride, place);
        let convs = if shape.bottleneck {
            let inner = width / 4;
            let [first, second] = if shape.stride_first { [stride, 1] } else { [1, stride] };
            vec![conv([inputs, inner], 1, first), conv([inner, inner], 3, second), conv([inner, width], 1, 1)]
        } else {
            vec![conv([inputs, width], 3, stride), conv([width, width], 3, 1)]
        };
        let changes = inputs != width || stride != 1;
        ResNetBlock { convs, shortcut: changes.then(|| conv([inputs, width], 1, stride)) }
    }
}

impl Layer for ResNetBlock {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let (last, before) = match self.convs.split_last() {
            Some((last, before)) => (last, before),
            None => return x.clone(),
        };
        let y = before.iter().fold(x.clone(), |y, conv| conv.forward(&y).relu());
        let shortcut = self.shortcut.as_ref().map_or_else(|| x.clone(), |conv| conv.forward(x));
        (last.forward(&y) + shortcut).relu()
    }
}

impl ConvNorm {
    #[track_caller]
    fn new([inputs, outputs]: [usize; 2], kernel: usize, stride: usize, place: Place) -> ConvNorm {
        let opts = ConvOpts::default().stride(stride).padding(kernel / 2);
        let mut convolution = Conv2d::new(inputs, outputs, [kernel, kernel], opts, place);
        convolution.bias = None;
        ConvNorm { convolution, normalization: BatchNorm::new(outputs, place) }
    }
}

impl Layer for ConvNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.normalization.forward(&self.convolution.forward(x))
    }
}
