//! Talks with a language model, or lets it continue a text.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use kiln::nn::{ModuleExt, Sampling};
use kiln::{DType, Device, Precision, Quantization, set_float32_matmul_precision};
use kiln_models::{LanguageModel, LoadModelOpts, Message, Session, TextOpts, TextStream, locate};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Talks with a language model: a GGUF file, or a folder with config.json, tokenizer.json and safetensors.
#[derive(Parser)]
struct Arguments {
    /// The file or folder, or `hf://org/name`, which is downloaded (feature `hub`).
    model: PathBuf,
    /// Asks this instead of reading questions from the terminal.
    #[arg(long)]
    ask: Option<String>,
    /// Continues this text instead.
    #[arg(long, conflicts_with = "ask")]
    complete: Option<String>,
    /// What the model is told before the conversation.
    #[arg(long)]
    system: Option<String>,
    /// A variable of the model's chat template, such as enable_thinking=false.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, serde_json::Value)>,
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
    /// Type of weights that are not quantized: f32, bf16, f16; the file's by default.
    #[arg(long)]
    dtype: Option<DType>,
    /// Quantizes the weights of safetensors: Q8_0, Q4_0 or Q4_1.
    #[arg(long, value_parser = quantization)]
    quantize: Option<Quantization>,
    /// Multiplies by quantized weights with all digits, not 8 bits, of what they are multiplied with.
    #[arg(long)]
    exact: bool,
    /// Most tokens of an answer.
    #[arg(long, default_value_t = 256)]
    tokens: usize,
    /// Tokens that the conversation may have.
    #[arg(long, default_value_t = 2048)]
    context: usize,
    /// Type of what is kept of them: f32, bf16, f16, or u8 for codes of 8 bits; that of the weights by
    /// default.
    #[arg(long)]
    cache_type: Option<DType>,
    /// A smaller model of the same vocabulary that guesses tokens, which the model checks several at a time.
    #[arg(long)]
    draft: Option<PathBuf>,
    /// Guesses tokens by what followed the same ones before in the conversation.
    #[arg(long, conflicts_with = "draft")]
    lookup: bool,
    /// Most tokens that are guessed at a time.
    #[arg(long, default_value_t = 8)]
    guesses: usize,
    /// 0 picks the likeliest token, 1 by the model's probabilities.
    #[arg(long, default_value_t = 0.0)]
    temperature: f64,
    /// Only the likeliest tokens that have so much probability together.
    #[arg(long)]
    top_p: Option<f64>,
    /// Makes what was said less likely; 1.1 is usual.
    #[arg(long)]
    repetition_penalty: Option<f64>,
    /// Seed of the picks.
    #[arg(long)]
    seed: Option<u64>,
}

fn quantization(name: &str) -> Result<Quantization, String> {
    Quantization::of(name).ok_or_else(|| "expected Q8_0, Q4_0 or Q4_1".into())
}

fn variable(text: &str) -> Result<(String, serde_json::Value), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.into(), serde_json::from_str(value).unwrap_or_else(|_| value.into())))
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = open(&arguments.model, arguments)?;
    let draft = arguments.draft.as_ref().map(|path| open(path, arguments)).transpose()?;
    let mut session = model.session_of(arguments.context.min(model.model().config().positions));
    if let Some(dtype) = arguments.cache_type {
        session = session.cache_dtype(dtype);
    }
    if let Some(draft) = &draft {
        session = session.draft(draft, arguments.guesses)?;
    } else if arguments.lookup {
        session = session.lookup(arguments.guesses);
    }
    if let Some(text) = &arguments.complete {
        print!("{text}");
        show(session.complete(text, opts(arguments))?, arguments)?;
        return Ok(());
    }
    let system = arguments.system.iter().map(|text| Message::new("system", text));
    let mut messages: Vec<Message> = system.collect();
    if let Some(question) = &arguments.ask {
        return answer(&mut session, &mut messages, question, arguments);
    }
    eprintln!("Ask something; an empty line ends the conversation.");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            break;
        }
        answer(&mut session, &mut messages, &line, arguments)?;
    }
    Ok(())
}

fn open(path: &Path, arguments: &Arguments) -> Result<LanguageModel, Failure> {
    let start = Instant::now();
    let mut load = LoadModelOpts::default().device(arguments.device);
    (load.dtype, load.quantize) = (arguments.dtype, arguments.quantize);
    let mut model = LanguageModel::open(locate(path)?, load)?;
    if let Some(template) = model.template_mut() {
        arguments.variables.iter().for_each(|(name, value)| template.set(name, value.clone()));
    }
    if !arguments.exact && model.model().parameters().iter().any(|weight| weight.quantized().is_some()) {
        set_float32_matmul_precision(Precision::Medium);
    }
    let (numbers, layers) = (model.model().num_params(), model.model().config().layers);
    eprintln!(
        "{:.0} million weights in {layers} layers on {}, loaded in {:.1?}",
        numbers as f64 / 1e6,
        arguments.device,
        start.elapsed()
    );
    Ok(model)
}

fn opts(arguments: &Arguments) -> TextOpts {
    let mut sampling = Sampling::default().temperature(arguments.temperature);
    (sampling.top_p, sampling.repetition_penalty) = (arguments.top_p, arguments.repetition_penalty);
    let mut opts = TextOpts::default().sampling(sampling).max_tokens(arguments.tokens);
    opts.seed = arguments.seed;
    opts
}

fn answer(
    session: &mut Session,
    messages: &mut Vec<Message>,
    question: &str,
    arguments: &Arguments,
) -> Result<(), Failure> {
    messages.push(Message::new("user", question));
    let text = show(session.reply(messages, opts(arguments))?, arguments)?;
    messages.push(Message::new("assistant", text));
    Ok(())
}

/// Prints a text as it comes, then what it took.
fn show(mut stream: TextStream, arguments: &Arguments) -> Result<String, Failure> {
    let (start, mut first, mut text) = (Instant::now(), None, String::new());
    for piece in stream.by_ref() {
        let piece = piece?;
        first.get_or_insert_with(|| start.elapsed());
        print!("{piece}");
        std::io::stdout().flush()?;
        text += &piece;
    }
    println!();
    let (first, whole) = (first.unwrap_or_default(), start.elapsed());
    let later = (whole - first).max(Duration::from_nanos(1)).as_secs_f64();
    let rate = stream.written().saturating_sub(1) as f64 / later;
    let memory = arguments.device.max_memory_allocated()? >> 20;
    let guesses = match stream.guesses() {
        (0, _) => String::new(),
        (guessed, right) => {
            format!("; {:.0} % of {guessed} guesses right", 100.0 * right as f64 / guessed as f64)
        }
    };
    eprintln!(
        "[{} tokens read, the first written after {first:.2?}, then {rate:.1} a second; {memory} MiB at most{guesses}]",
        stream.read(),
    );
    Ok(text)
}
