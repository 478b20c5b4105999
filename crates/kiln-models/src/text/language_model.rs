//! A language model with its tokenizer and chat template.

use std::path::Path;

use kiln::io::gguf::{Gguf, GgufValue};

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::error::Result;
use crate::llama::Llama;
use crate::load::LoadModelOpts;
use crate::text::session::Session;
use crate::text::template::ChatTemplate;
use crate::text::tokenizer::Tokenizer;

/// A language model and what turns text into its tokens and back.
///
/// See the [crate's page](crate) for an example.
#[derive(Debug)]
pub struct LanguageModel {
    model: Llama,
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    stop: Vec<i64>,
}

/// Tokens that end an answer, whatever the files say of it.
const ENDS: [&str; 5] = ["<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|endoftext|>", "</s>"];

impl LanguageModel {
    /// Opens a [`Checkpoint`] with its tokenizer.
    ///
    /// # Errors
    /// Those of [`Checkpoint::open`] and [`Llama::load`]; no tokenizer, or one that is not known.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>, opts: LoadModelOpts) -> Result<LanguageModel> {
        LanguageModel::load(&Checkpoint::open(path)?, opts)
    }

    /// The model of a [`Checkpoint`], with its tokenizer.
    ///
    /// # Errors
    /// Those of [`Llama::load`]; no tokenizer, or one that is not known.
    #[track_caller]
    pub fn load(checkpoint: &Checkpoint, opts: LoadModelOpts) -> Result<LanguageModel> {
        let parts = match checkpoint.gguf() {
            Some(gguf) => TextParts::of_gguf(gguf)?,
            None => TextParts::of_folder(checkpoint.path(), checkpoint.config())?,
        };
        let model = Llama::load(checkpoint, opts)?;
        let TextParts { tokenizer, template, first, last, mut stop } = parts;
        let name = |token: Option<i64>| token.and_then(|token| tokenizer.text_of(token));
        let template = template.map(|text| ChatTemplate::new(&text, name(first), name(last))).transpose()?;
        stop.extend(last);
        stop.extend(ENDS.iter().filter_map(|end| tokenizer.token(end)));
        Ok(LanguageModel { model, tokenizer, template, stop })
    }

    /// The model alone.
    pub fn model(&self) -> &Llama {
        &self.model
    }
    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
    /// The chat template, if there is one: models that only continue text have none.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }
    /// The chat template, to give it variables ([`ChatTemplate::set`]).
    pub fn template_mut(&mut self) -> Option<&mut ChatTemplate> {
        self.template.as_mut()
    }
    /// Tokens that end an answer.
    pub fn stop(&self) -> &[i64] {
        &self.stop
    }

    /// A conversation, or a text that is continued, of up to 4,096 tokens, or as many as the model was
    /// made for.
    #[track_caller]
    pub fn session(&self) -> Session<'_> {
        self.session_of(self.model.config().positions.min(4096))
    }

    /// The same with up to `capacity` tokens, which take memory from the start.
    #[track_caller]
    pub fn session_of(&self, capacity: usize) -> Session<'_> {
        Session::new(self, capacity)
    }
}

/// What the files have beside weights.
struct TextParts {
    tokenizer: Tokenizer,
    template: Option<String>,
    first: Option<i64>,
    last: Option<i64>,
    stop: Vec<i64>,
}

impl TextParts {
    fn of_gguf(gguf: &Gguf) -> Result<TextParts> {
        let id = |key: &str| gguf.get(key)?.as_u64()?.try_into().ok();
        let template = gguf.get("tokenizer.chat_template").and_then(GgufValue::as_text);
        Ok(TextParts {
            tokenizer: Tokenizer::from_gguf(gguf)?,
            template: template.map(Into::into),
            first: id("tokenizer.ggml.bos_token_id"),
            last: id("tokenizer.ggml.eos_token_id"),
            stop: ["eot", "eom"]
                .iter()
                .filter_map(|end| id(&format!("tokenizer.ggml.{end}_token_id")))
                .collect(),
        })
    }

    fn of_folder(folder: &Path, config: &Config) -> Result<TextParts> {
        let tokenizer = Tokenizer::open(folder.join("tokenizer.json"))?;
        let optional = |name: &str| {
            let path = folder.join(name);
            path.exists().then(|| Config::open(path)).transpose()
        };
        let (own, generation) = (optional("tokenizer_config.json")?, optional("generation_config.json")?);
        let named = |key: &str| {
            own.as_ref().and_then(|own| token_text(own, key)).and_then(|text| tokenizer.token(&text))
        };
        let (first, last) = (named("bos_token"), named("eos_token"));
        let all = [Some(config), generation.as_ref()].into_iter().flatten();
        let stop = all.flat_map(|config| ids(config, "eos_token_id")).collect();
        let beside = std::fs::read_to_string(folder.join("chat_template.jinja")).ok();
        let template = beside.or_else(|| own.as_ref()?.text("chat_template").ok());
        Ok(TextParts { tokenizer, template, first, last, stop })
    }
}

/// A token that is given by its text, or by an object that has it.
fn token_text(config: &Config, key: &str) -> Option<String> {
    config.text(key).ok().or_else(|| config.section(key).ok()??.text("content").ok())
}

/// A number, or a list of them.
fn ids(config: &Config, key: &str) -> Vec<i64> {
    let one = config.count(key).map(|id| vec![id]);
    let all = one.or_else(|_| config.counts(key).map(Option::unwrap_or_default)).unwrap_or_default();
    all.into_iter().filter_map(|id| id.try_into().ok()).collect()
}
