//! The configuration of a published model.

use std::fmt;
use std::path::Path;

use kiln::io::gguf::{Gguf, GgufValue};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// What a model's `config.json` says. A GGUF file's metadata are read under the same names, so that a
/// model reads one vocabulary.
///
/// # Examples
/// ```
/// use kiln_models::Config;
/// let config = Config::parse("config.json", r#"{"hidden_size": 64, "rope_theta": 1e5}"#)?;
/// assert_eq!(config.count("hidden_size")?, 64);
/// assert_eq!(config.number_or("rms_norm_eps", 1e-6)?, 1e-6);
/// let error = config.count("num_hidden_layers").unwrap_err().to_string();
/// assert_eq!(error, "config.json: expected num_hidden_layers to be a count, found nothing");
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    file: String,
    values: Map<String, Value>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read or is no JSON object.
    pub fn open(path: impl AsRef<Path>) -> Result<Config> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|source| Error::File { path: path.into(), source })?;
        Config::parse(&path.display().to_string(), &text)
    }

    /// Reads the text of a file of this name.
    ///
    /// # Errors
    /// Text that is no JSON object.
    pub fn parse(file: &str, text: &str) -> Result<Config> {
        let values = serde_json::from_str(text);
        let values = values.map_err(|source| Error::Json { path: file.into(), source })?;
        Ok(Config { file: file.into(), values })
    }

    /// The metadata of a language model's GGUF file, under the names of `config.json`.
    ///
    /// # Errors
    /// A file without an architecture.
    pub fn from_gguf(file: &str, gguf: &Gguf) -> Result<Config> {
        let architecture = gguf.get("general.architecture").and_then(GgufValue::as_text);
        let mut config = Config { file: file.into(), values: Map::new() };
        let architecture =
            architecture.ok_or_else(|| config.wrong("general.architecture", "a name", "nothing"))?;
        let has = |tensor: &str| gguf.state().get(tensor).is_some() || gguf.state().raw(tensor).is_some();
        let embeddings = gguf.state().raw("token_embd.weight").map(|raw| raw.shape().first().copied());
        let plain = || gguf.state().get("token_embd.weight").map(|tensor| tensor.shape().first().copied());
        let values = &mut config.values;
        values.insert("model_type".into(), json!(architecture));
        values.insert("tie_word_embeddings".into(), json!(!has("output.weight")));
        values.insert("attention_bias".into(), json!(has("blk.0.attn_q.bias")));
        values.insert("vocab_size".into(), json!(embeddings.or_else(plain).flatten()));
        for (key, name) in GGUF_NAMES {
            let value = gguf.get(&format!("{architecture}.{key}")).and_then(number);
            values.extend(value.map(|value| (name.to_string(), value)));
        }
        // Their converter writes norms' weights as they are multiplied, and orders the rows of Llama's
        // queries and keys so that turned planes are neighbours.
        values.insert("norm_offset".into(), json!(0.0));
        values.insert("rope_interleaved".into(), json!(["llama", "smollm3"].contains(&architecture)));
        if let Some(scalar) = gemma_scalar(architecture, values) {
            values.insert("query_pre_attn_scalar".into(), json!(scalar));
        }
        values.extend(rope_scaling(architecture, gguf)?.map(|scaling| ("rope_scaling".to_string(), scaling)));
        Ok(config)
    }

    /// Takes what it does not say from another one.
    pub(crate) fn fill(&mut self, other: Config) {
        let missing = |(key, _): &(String, Value)| self.values.get(key).is_none_or(Value::is_null);
        let filled: Vec<(String, Value)> = other.values.into_iter().filter(missing).collect();
        self.values.extend(filled);
    }

    /// The file it was read from.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// A count.
    ///
    /// # Errors
    /// [`Error::Config`]: nothing, or something else.
    pub fn count(&self, key: &str) -> Result<usize> {
        self.need(key, "a count", as_count)
    }
    /// A count of what is built one by one, such as layers: at least one, and no more than a model can have.
    ///
    /// # Errors
    /// Nothing, or something else.
    pub fn layers(&self, key: &str) -> Result<usize> {
        self.few(key, self.count(key)?)
    }
    /// The same, or `other` if there is nothing.
    ///
    /// # Errors
    /// Something else.
    pub fn layers_or(&self, key: &str, other: usize) -> Result<usize> {
        self.few(key, self.count_or(key, other)?)
    }

    /// A count of what is built one by one.
    ///
    /// # Errors
    /// None, or more than a model can have.
    pub(crate) fn few(&self, key: &str, count: usize) -> Result<usize> {
        let expected = || self.wrong(key, format!("from 1 to {MOST_LAYERS}"), count);
        if (1..=MOST_LAYERS).contains(&count) { Ok(count) } else { Err(expected()) }
    }
    /// A count, or `other` if there is none.
    ///
    /// # Errors
    /// Something else.
    pub fn count_or(&self, key: &str, other: usize) -> Result<usize> {
        Ok(self.find(key, "a count", as_count)?.unwrap_or(other))
    }
    /// A count, if there is one.
    ///
    /// # Errors
    /// Something else.
    pub fn maybe_count(&self, key: &str) -> Result<Option<usize>> {
        self.find(key, "a count", as_count)
    }
    /// A number, or `other` if there is none.
    ///
    /// # Errors
    /// Something else.
    pub fn number_or(&self, key: &str, other: f64) -> Result<f64> {
        Ok(self.maybe_number(key)?.unwrap_or(other))
    }
    /// A number, if there is one.
    ///
    /// # Errors
    /// Something else.
    pub fn maybe_number(&self, key: &str) -> Result<Option<f64>> {
        self.find(key, "a number", Value::as_f64)
    }
    /// True or false, or `other` if there is neither.
    ///
    /// # Errors
    /// Something else.
    pub fn flag_or(&self, key: &str, other: bool) -> Result<bool> {
        Ok(self.find(key, "true or false", Value::as_bool)?.unwrap_or(other))
    }
    /// A text.
    ///
    /// # Errors
    /// Nothing, or something else.
    pub fn text(&self, key: &str) -> Result<String> {
        self.need(key, "a text", as_text)
    }
    /// A text, or `other` if there is none.
    ///
    /// # Errors
    /// Something else.
    pub fn text_or(&self, key: &str, other: &str) -> Result<String> {
        Ok(self.find(key, "a text", as_text)?.unwrap_or_else(|| other.into()))
    }
    /// A list of texts, if there is one.
    ///
    /// # Errors
    /// Something else.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        self.find(key, "a list of texts", |value| value.as_array()?.iter().map(as_text).collect())
    }
    /// A list of counts, if there is one.
    ///
    /// # Errors
    /// Something else.
    pub fn counts(&self, key: &str) -> Result<Option<Vec<usize>>> {
        self.find(key, "a list of counts", |value| value.as_array()?.iter().map(as_count).collect())
    }
    /// A list of numbers, if there is one.
    ///
    /// # Errors
    /// Something else.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>> {
        self.find(key, "a list of numbers", |value| value.as_array()?.iter().map(Value::as_f64).collect())
    }
    /// How many classes a classifier has: `num_labels`, or as many as `id2label` names.
    ///
    /// # Errors
    /// Neither, or something else.
    pub fn classes(&self) -> Result<usize> {
        let named = self.find("id2label", "an object", |value| value.as_object().map(Map::len))?;
        named.map_or_else(|| self.count("num_labels"), Ok)
    }
    /// A configuration inside this one, if there is one.
    ///
    /// # Errors
    /// Something else.
    pub fn section(&self, key: &str) -> Result<Option<Config>> {
        let values = self.find(key, "an object", |value| value.as_object().cloned())?;
        Ok(values.map(|values| Config { file: format!("{}: {key}", self.file), values }))
    }

    /// Fails unless it is of this kind of model.
    pub(crate) fn check_kind(&self, expected: &str) -> Result<()> {
        let kind = self.text("model_type")?;
        if kind == expected { Ok(()) } else { Err(self.wrong("model_type", expected, kind)) }
    }

    /// Whether an entry says that there is nothing.
    pub(crate) fn is_null(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(Value::is_null)
    }
    /// Whether there is an entry.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(|value| !value.is_null())
    }

    /// Fails unless an entry is missing, or what it is mostly.
    pub(crate) fn check_usual(&self, key: &str, usual: &Value) -> Result<()> {
        let same =
            |found: &Value| found == usual || found.as_f64().zip(usual.as_f64()).is_some_and(|(a, b)| a == b);
        match self.values.get(key) {
            Some(found) if !found.is_null() && !same(found) => Err(self.wrong(key, usual, found)),
            Some(_) | None => Ok(()),
        }
    }

    /// The error that an entry is not as it must be.
    pub fn wrong(&self, key: &str, expected: impl fmt::Display, found: impl fmt::Display) -> Error {
        let [expected, found] = [expected.to_string(), found.to_string()];
        Error::Config { file: self.file.clone(), key: key.into(), expected, found }
    }

    fn need<T>(&self, key: &str, expected: &str, of: impl Fn(&Value) -> Option<T>) -> Result<T> {
        self.find(key, expected, of)?.ok_or_else(|| self.wrong(key, expected, "nothing"))
    }

    /// What an entry is, if it is there; `null` is nothing.
    fn find<T>(&self, key: &str, expected: &str, of: impl Fn(&Value) -> Option<T>) -> Result<Option<T>> {
        match self.values.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => of(value).map(Some).ok_or_else(|| self.wrong(key, expected, value)),
        }
    }
}

fn as_count(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|value| value.try_into().ok())
}

fn as_text(value: &Value) -> Option<String> {
    value.as_str().map(Into::into)
}

fn number(value: &GgufValue) -> Option<Value> {
    value.as_u64().map(|value| json!(value)).or_else(|| value.as_f64().map(|value| json!(shortest(value))))
}

/// The shortest number that is this one in f32, as people wrote it: 1e-5 instead of 9.99999974e-6.
fn shortest(value: f64) -> f64 {
    (value as f32).to_string().parse().unwrap_or(value)
}

/// Keys of GGUF, after the architecture, and their names in `config.json`.
const GGUF_NAMES: [(&str, &str); 12] = [
    ("embedding_length", "hidden_size"),
    ("feed_forward_length", "intermediate_size"),
    ("block_count", "num_hidden_layers"),
    ("context_length", "max_position_embeddings"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("attention.sliding_window", "sliding_window"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("final_logit_softcapping", "final_logit_softcapping"),
    ("rope.freq_base", "rope_theta"),
];

/// More layers than any model has.
const MOST_LAYERS: usize = 1024;

/// What the largest Gemma 2 and 3, which their layers tell apart, divide the squares of scores by, if not by
/// a head's width; files do not say it.
fn gemma_scalar(architecture: &str, values: &Map<String, Value>) -> Option<u64> {
    let count = |key: &str| values.get(key)?.as_u64();
    match (architecture, count("num_hidden_layers")?) {
        ("gemma2", 46) | ("gemma3", 62) => count("hidden_size")?.checked_div(count("num_attention_heads")?),
        _ => None,
    }
}

/// What `rope_scaling` would say.
fn rope_scaling(architecture: &str, gguf: &Gguf) -> Result<Option<Value>> {
    // Llama 3's files have the factors themselves, of which the greatest is the scale's.
    if let Some(factors) = gguf.state().get("rope_freqs.weight") {
        let factor = factors.to_vec::<f32>()?.into_iter().fold(1.0, f32::max);
        return Ok(Some(json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        })));
    }
    let get = |key: &str| gguf.get(&format!("{architecture}.rope.scaling.{key}"));
    let kind = get("type").and_then(GgufValue::as_text).filter(|&kind| kind != "none");
    Ok(kind.map(|kind| {
        let (factor, original) = (get("factor").and_then(number), get("original_context_length"));
        json!({
            "rope_type": kind, "factor": factor,
            "original_max_position_embeddings": original.and_then(number),
        })
    }))
}
