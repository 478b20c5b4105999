//! Writes down what is said in a sound file.

use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use kiln::nn::{BeamOpts, ModuleExt};
use kiln::{Device, Tensor};
use kiln_models::{Checkpoint, Config, LoadModelOpts, Sound, Tokenizer, Whisper, locate};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Writes down what is said in a WAV file, 30 seconds at a time, by a Whisper.
#[derive(Parser)]
struct Arguments {
    /// The file; without one, two seconds of a tone.
    sound: Option<PathBuf>,
    /// A folder as transformers saves it, such as whisper-tiny, or `hf://org/name`, which is downloaded (feature
    /// `hub`); without one, a model of its size with random weights, whose tokens are printed as numbers.
    #[arg(long)]
    model: Option<PathBuf>,
    /// The language that is spoken.
    #[arg(long, default_value = "en")]
    language: String,
    /// Translates to English.
    #[arg(long)]
    translate: bool,
    /// Most tokens of 30 seconds.
    #[arg(long, default_value_t = 224)]
    tokens: usize,
    /// Texts that are followed at a time, to find the likeliest as a whole; 1 takes the likeliest token each time.
    #[arg(long, default_value_t = 1)]
    beams: usize,
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
}

/// The shape of whisper-tiny.
const TINY: &str = r#"{
    "model_type": "whisper", "vocab_size": 51865, "d_model": 384,
    "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536,
    "decoder_layers": 4, "decoder_attention_heads": 6, "decoder_ffn_dim": 1536,
    "decoder_start_token_id": 50258
}"#;

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (model, tokenizer) = open(arguments)?;
    let prompt = prompt(tokenizer.as_ref(), arguments)?;
    let sound = match &arguments.sound {
        Some(path) => Sound::open(path)?,
        None => Sound { rate: 16_000, samples: (0..32_000).map(|i| (i as f32 * 0.1).sin() * 0.5).collect() },
    };
    let sound = sound.resampled(16_000);
    let (start, mut count) = (Instant::now(), 0);
    for piece in sound.samples.chunks(model.config().samples().max(1)) {
        let piece = Sound { rate: sound.rate, samples: piece.to_vec() }.tensor(arguments.device);
        let tokens = tokens(&model, &model.features(&piece).unsqueeze(0), &prompt, arguments)?;
        count += tokens.len();
        match &tokenizer {
            Some(tokenizer) => println!("{}", tokenizer.decode(&tokens)?.trim()),
            None => println!("{tokens:?}"),
        }
    }
    let seconds = sound.samples.len() as f64 / f64::from(sound.rate);
    eprintln!("[{count} tokens of {seconds:.1} s on {} in {:.2?}]", arguments.device, start.elapsed());
    Ok(())
}

/// The tokens of a text, by greedy search or with beams.
fn tokens(
    model: &Whisper,
    features: &Tensor,
    prompt: &[i64],
    arguments: &Arguments,
) -> Result<Vec<i64>, Failure> {
    if arguments.beams == 1 {
        return Ok(model.transcribe(features, prompt, arguments.tokens)?);
    }
    let opts = BeamOpts::default().beams(arguments.beams).max_tokens(arguments.tokens);
    let best = model.transcribe_beams(features, prompt, opts)?.into_iter().next();
    Ok(best.map(|beam| beam.tokens).unwrap_or_default())
}

fn open(arguments: &Arguments) -> Result<(Whisper, Option<Tokenizer>), Failure> {
    let start = Instant::now();
    let (model, tokenizer) = match &arguments.model {
        Some(folder) => {
            let checkpoint = Checkpoint::open(locate(folder)?)?;
            let model = Whisper::load(&checkpoint, LoadModelOpts::default().device(arguments.device))?;
            (model, Some(Tokenizer::open(checkpoint.path().join("tokenizer.json"))?))
        }
        None => (Whisper::new(&Config::parse("whisper-tiny", TINY)?, arguments.device)?, None),
    };
    let weights = model.num_params() as f64 / 1e6;
    eprintln!("{weights:.0} million weights on {}, ready in {:.1?}", arguments.device, start.elapsed());
    Ok((model, tokenizer))
}

/// What the text begins with: the language and the task.
fn prompt(tokenizer: Option<&Tokenizer>, arguments: &Arguments) -> Result<Vec<i64>, Failure> {
    let Some(tokenizer) = tokenizer else { return Ok(Vec::new()) };
    let token = |name: &str| {
        let text = format!("<|{name}|>");
        tokenizer.token(&text).ok_or_else(|| format!("the model has no token {text}"))
    };
    // Models of English alone have neither languages nor tasks.
    let Ok(task) = token(if arguments.translate { "translate" } else { "transcribe" }) else {
        return Ok(vec![token("startoftranscript")?, token("notimestamps")?]);
    };
    Ok(vec![token("startoftranscript")?, token(&arguments.language)?, task, token("notimestamps")?])
}
