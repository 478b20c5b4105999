//! A language model that answers.

use js_sys::{Function, Promise};
use kiln::io::RangeReader;
use kiln::io::gguf::Gguf;
use kiln::nn::{ModuleExt, Sampling};
use kiln::prelude::*;
use kiln::{Precision, set_float32_matmul_precision};
use kiln_models::{Checkpoint, LanguageModel, LoadModelOpts, Message, TextOpts};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::Blob;

use crate::Result;
use crate::sources::{Address, Chosen};

/// Tokens of a question and its answer.
const CONTEXT: usize = 1024;

/// A language model from a GGUF file of the Llama family.
#[wasm_bindgen]
pub struct Chat {
    model: LanguageModel,
    device: Device,
}

#[wasm_bindgen]
impl Chat {
    /// Reads a file that the visitor chose, onto a device that is open.
    ///
    /// # Errors
    /// A file that is none, or of a model that is not known.
    pub async fn open(file: Blob, name: String, device: String) -> Result<Chat> {
        Chat::read(Chosen { name, file }, device).await
    }

    /// Reads a file by address, onto a device that is open.
    ///
    /// # Errors
    /// An address that does not answer; a file that is none, or of a model that is not known.
    pub async fn fetch(address: String, device: String) -> Result<Chat> {
        Chat::read(Address::new(address), device).await
    }

    async fn read(file: impl RangeReader, device: String) -> Result<Chat> {
        let (name, device): (String, Device) = (file.name(), device.parse()?);
        let gguf = Gguf::open_async(file).await?;
        // The file's blocks are multiplied as they are.
        set_float32_matmul_precision(Precision::Medium);
        let opts = LoadModelOpts::default().device(device);
        let model = LanguageModel::load(&Checkpoint::from_gguf(name, gguf)?, opts)?;
        device.synchronize_async().await?;
        Ok(Chat { model, device })
    }

    /// What it is, in a line.
    pub fn describe(&self) -> String {
        let (model, config) = (self.model.model(), self.model.model().config());
        let millions = model.num_params() as f64 / 1e6;
        format!("{millions:.1} million weights in {} layers, on {}", config.layers, self.device)
    }

    /// Answers a question, or continues the text where the model knows no conversations. Each piece is given to
    /// `show`, whose promise is awaited: false ends the answer. Gives how many tokens were read and written.
    ///
    /// # Errors
    /// A text that is too long; kiln's.
    pub async fn answer(&self, text: String, most: usize, show: Function) -> Result<Vec<usize>> {
        let capacity = CONTEXT.min(self.model.model().config().positions);
        let mut session = self.model.session_of(capacity);
        let sampling = Sampling::greedy().repetition_penalty(1.1);
        let opts = TextOpts::default().max_tokens(most).sampling(sampling);
        let mut pieces = match self.model.template() {
            Some(_) => session.reply(&[Message::new("user", text)], opts)?,
            None => session.complete(&text, opts)?,
        };
        while let Some(piece) = pieces.next_async().await {
            let shown = show.call2(&JsValue::NULL, &piece?.into(), &pieces.written().into());
            let shown: Promise = shown.map_err(thrown)?.unchecked_into();
            if JsFuture::from(shown).await.map_err(thrown)? == false {
                break;
            }
        }
        Ok(vec![pieces.read(), pieces.written()])
    }
}

/// An error of the page's own script.
fn thrown(error: JsValue) -> wasm_bindgen::JsError {
    wasm_bindgen::JsError::new(&format!("{error:?}"))
}
