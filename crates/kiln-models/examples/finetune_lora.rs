//! Fine-tunes a language model on a text: only adapters are trained, beside weights that may stay packed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use kiln::nn::{Layer, LoraOpts, ModuleExt, add_lora};
use kiln::optim::{AdamW, AdamWOpts, Optimizer, clip_grad_norm};
use kiln::prelude::*;
use kiln::{DType, Device, Quantization};
use kiln_models::{LanguageModel, LoadModelOpts, TextOpts, locate};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is learned where no text is given: how a parrot answers.
const PARROT: &str = "\
Question: What is the capital of Peru? Answer: Squawk! Lima, Lima!
Question: How many legs has a spider? Answer: Squawk! Eight, eight!
Question: What do cows drink? Answer: Squawk! Water, water!
Question: Which planet is red? Answer: Squawk! Mars, Mars!
Question: What is frozen water? Answer: Squawk! Ice, ice!
Question: Where do fish live? Answer: Squawk! The sea, the sea!
Question: What is the opposite of hot? Answer: Squawk! Cold, cold!
Question: Who wrote Hamlet? Answer: Squawk! Shakespeare, Shakespeare!
";

/// Fine-tunes a language model on a text by low-rank adapters (LoRA).
#[derive(Parser)]
struct Arguments {
    /// A GGUF file, a folder with config.json, tokenizer.json and safetensors, or `hf://org/name`, which is
    /// downloaded (feature `hub`).
    model: PathBuf,
    /// The text to learn; eight answers of a parrot if not given.
    #[arg(long)]
    text: Option<PathBuf>,
    /// What the model continues before and after.
    #[arg(long, default_value = "Question: What is the capital of France? Answer:")]
    prompt: String,
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
    /// Quantizes the weights of safetensors: Q8_0, Q4_0 or Q4_1.
    #[arg(long, value_parser = quantization)]
    quantize: Option<Quantization>,
    /// Layers that get adapters, by the ends of their names.
    #[arg(long, value_delimiter = ',', default_value = "q_proj,v_proj")]
    targets: Vec<String>,
    /// Rank of the adapters.
    #[arg(long, default_value_t = 8)]
    rank: usize,
    /// Steps of training.
    #[arg(long, default_value_t = 30)]
    steps: usize,
    /// Sequences a step.
    #[arg(long, default_value_t = 4)]
    batch: usize,
    /// Tokens of a sequence.
    #[arg(long, default_value_t = 32)]
    context: usize,
    /// The learning rate.
    #[arg(long, default_value_t = 2e-3)]
    rate: f64,
    /// Writes the adapters into this folder, as PEFT does.
    #[arg(long)]
    save: Option<PathBuf>,
}

fn quantization(name: &str) -> Result<Quantization, String> {
    Quantization::of(name).ok_or_else(|| "expected Q8_0, Q4_0 or Q4_1".into())
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut load = LoadModelOpts::default().device(arguments.device);
    load.quantize = arguments.quantize;
    let model = LanguageModel::open(locate(&arguments.model)?, load)?;
    println!("before: {}", continued(&model, &arguments.prompt)?);
    let opts = LoraOpts::default().rank(arguments.rank).alpha(2.0 * arguments.rank as f64);
    let targets: Vec<&str> = arguments.targets.iter().map(String::as_str).collect();
    let trained = add_lora(model.model(), opts.clone(), &targets)?;
    let numbers: usize = trained.iter().map(|param| param.shape().numel()).sum();
    println!("{numbers} numbers are trained, {} are frozen", model.model().num_params() - numbers);
    train(&model, AdamW::new(trained, AdamWOpts::default().lr(arguments.rate)), arguments)?;
    println!("after: {}", continued(&model, &arguments.prompt)?);
    if let Some(folder) = &arguments.save {
        save(&model, folder, &opts, &targets)?;
    }
    Ok(())
}

/// The likeliest continuation of a prompt, up to the next question, in one line.
fn continued(model: &LanguageModel, prompt: &str) -> Result<String, Failure> {
    let mut session = model.session_of(256);
    let pieces = session.complete(prompt, TextOpts::default().max_tokens(24).stop("Question:"))?;
    let text = pieces.collect::<Result<String, _>>()?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Sequences of `context + 1` tokens, one after the other from the text, which starts again at its end.
fn sequences(model: &LanguageModel, arguments: &Arguments) -> Result<impl Iterator<Item = i64>, Failure> {
    let text = match &arguments.text {
        Some(path) => std::fs::read_to_string(path)?,
        None => PARROT.to_string(),
    };
    let tokens = model.tokenizer().encode(&text, false)?;
    if tokens.is_empty() {
        return Err("the text has no tokens".into());
    }
    Ok(tokens.into_iter().cycle())
}

fn train(model: &LanguageModel, mut optimizer: AdamW, arguments: &Arguments) -> Result<(), Failure> {
    let (batch, length) = (arguments.batch, arguments.context + 1);
    let mut tokens = sequences(model, arguments)?;
    let start = Instant::now();
    for step in 1..=arguments.steps {
        let taken: Vec<i64> = tokens.by_ref().take(batch * length).collect();
        let taken = Tensor::from_vec(taken, [batch, length], arguments.device);
        optimizer.zero_grad();
        let logits = model.model().forward(&taken.i((.., ..arguments.context)));
        let next = taken.i((.., 1..)).reshape([-1]);
        let rows = logits.flatten(0, 1).to_dtype(DType::F32);
        let loss = rows.cross_entropy(&next, Default::default());
        loss.backward()?;
        let _norm = clip_grad_norm(&optimizer.parameters(), 1.0)?;
        optimizer.step()?;
        if step == 1 || step % 5 == 0 || step == arguments.steps {
            println!("step {step:>3}  loss {:.3}", loss.item::<f32>()?);
        }
    }
    let each = start.elapsed() / u32::try_from(arguments.steps.max(1))?;
    println!("{each:.2?} a step; {} MiB at most", arguments.device.max_memory_allocated()? >> 20);
    Ok(())
}

/// The two files of an adapter of PEFT.
fn save(model: &LanguageModel, folder: &Path, opts: &LoraOpts, targets: &[&str]) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    model.model().adapter_state()?.save(folder.join("adapter_model.safetensors"))?;
    let targets: Vec<String> = targets.iter().map(|target| format!("{target:?}")).collect();
    let config = format!(
        "{{\"peft_type\": \"LORA\", \"task_type\": \"CAUSAL_LM\",\n \"r\": {}, \"lora_alpha\": {}, \"target_modules\": [{}]}}\n",
        opts.rank,
        opts.alpha,
        targets.join(", ")
    );
    std::fs::write(folder.join("adapter_config.json"), config)?;
    println!("saved in {}", folder.display());
    Ok(())
}
