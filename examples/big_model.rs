//! What a model needs that fits nowhere, planned without any of its memory.

use clap::Parser;
use kiln::nn::{
    AttentionLayerOpts, Embedding, Layer, LayerNorm, Linear, TransformerEncoderLayer, TransformerOpts,
};
use kiln::optim::{AdamWOpts, SgdOpts};
use kiln::prelude::*;

/// Bytes of a GiB.
const GIB: f64 = (1u64 << 30) as f64;

/// Plans a transformer of GPT-3's size (Brown et al. 2020), or another, on
/// the meta device: parameters, gradients, optimizer state, activations.
#[derive(Parser)]
struct Arguments {
    /// Device whose peak throughput gives the least time of a step; none if absent.
    #[arg(long, env = "KILN_DEVICE")]
    device: Option<Device>,
    /// Blocks.
    #[arg(long, default_value_t = 96)]
    blocks: usize,
    /// Channels.
    #[arg(long, default_value_t = 12288)]
    width: usize,
    /// Heads of attention.
    #[arg(long, default_value_t = 96)]
    heads: usize,
    /// Positions of a text.
    #[arg(long, default_value_t = 2048)]
    positions: usize,
    /// Texts of a batch.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Words known.
    #[arg(long, default_value_t = 50257)]
    words: usize,
}

/// A causal transformer.
struct Gpt {
    words: Embedding,
    blocks: Vec<TransformerEncoderLayer>,
    norm: LayerNorm,
    head: Linear,
}
kiln::module!(Gpt { words, blocks, norm, head });

impl Gpt {
    fn new(a: &Arguments) -> Gpt {
        let attention = AttentionLayerOpts::default().causal(true).rotary(1e4);
        let opts =
            TransformerOpts::default().feed_forward(4 * a.width).norm_first(true).gelu(true).dropout(0.0);
        let block =
            |_| TransformerEncoderLayer::new(a.width, a.heads, opts.clone().attention(attention.clone()), ());
        Gpt {
            words: Embedding::new(a.words, a.width, ()),
            blocks: (0..a.blocks).map(block).collect(),
            norm: LayerNorm::new([a.width], ()),
            head: Linear::new(a.width, a.words, ()),
        }
    }

    /// Scores of the next word: `[batch, positions]` to `[batch, positions, words]`.
    fn forward(&self, text: &Tensor) -> Tensor {
        let start = self.words.forward(text);
        let x = self.blocks.iter().fold(start, |x, block| block.forward(&x));
        self.head.forward(&self.norm.forward(&x))
    }

    fn loss(&self, text: &Tensor, next: &Tensor) -> Tensor {
        self.forward(text).flatten(0, 1).cross_entropy(&next.flatten(0, 1), Default::default())
    }
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> kiln::Result<()> {
    let start = std::time::Instant::now();
    let model = kiln::estimate(|| Gpt::new(arguments))?;
    let text = || Tensor::empty([arguments.batch, arguments.positions], DType::I64);
    let training = model.training(|gpt| gpt.loss(&text(), &text()))?;
    let inference = model.inference(|gpt| gpt.forward(&text()))?;
    let elapsed = start.elapsed().as_secs_f64();

    print!("the model\n{model}");
    for (name, rule) in
        [("SGD", &SgdOpts::default() as &dyn kiln::optim::Rule), ("AdamW", &AdamWOpts::default())]
    {
        println!("{name:<10}  {:.3} GiB of state", model.optimizer_bytes(rule) as f64 / GIB);
    }
    print!("\na forward pass\n{inference}\na training step\n{training}");
    println!("\n{} kernels, planned in {elapsed:.2} s of host time", training.plan.launches());
    if let Some(device) = arguments.device {
        let roofline = training.plan.roofline(device)?;
        println!(
            "a step takes at least {:.4} s on {device} ({})",
            roofline.seconds(),
            roofline.peak_throughput
        );
    }
    Ok(())
}
