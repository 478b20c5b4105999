//! Chat templates: how messages become the text that a model was trained with.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value, context};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::error::Result;

/// A message of a conversation.
///
/// # Examples
/// ```
/// use kiln_models::Message;
/// let message = Message::new("user", "Hello!");
/// assert_eq!((message.role.as_str(), message.content.as_str()), ("user", "Hello!"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whose it is: `system`, `user` or `assistant`.
    pub role: String,
    /// Its text.
    pub content: String,
}

impl Message {
    /// A message of somebody.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// A template in Jinja, as `tokenizer_config.json` and GGUF files have it.
///
/// # Examples
/// ```
/// use kiln_models::{ChatTemplate, Message};
/// let text = "{% for m in messages %}<{{ m['role'] }}>{{ m.content.strip() }}\n{% endfor %}\
///     {% if add_generation_prompt %}<assistant>{% endif %}";
/// let template = ChatTemplate::new(text, None, None)?;
/// assert_eq!(template.fill(&[Message::new("user", " Hello! ")])?, "<user>Hello!\n<assistant>");
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    first: String,
    last: String,
    variables: BTreeMap<String, Value>,
}

/// The template's name in its environment.
const NAME: &str = "chat";

impl ChatTemplate {
    /// Reads a template. `first` and `last` are the tokens that begin and end a text, if there are some:
    /// `bos_token` and `eos_token` in the template.
    ///
    /// # Errors
    /// Text that is no template.
    pub fn new(text: &str, first: Option<String>, last: Option<String>) -> Result<ChatTemplate> {
        let mut environment = Environment::new();
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_template_owned(NAME, without_generation(text))?;
        let [first, last] = [first, last].map(Option::unwrap_or_default);
        Ok(ChatTemplate { environment, first, last, variables: BTreeMap::new() })
    }

    /// Gives a variable to the template, such as `enable_thinking` of Qwen 3; those that it does not know
    /// change nothing. transformers: further arguments of `apply_chat_template`.
    ///
    /// # Examples
    /// ```
    /// use kiln_models::{ChatTemplate, Message};
    /// let text = "{{ messages[0].content }}{% if enable_thinking %}<think>{% endif %}";
    /// let mut template = ChatTemplate::new(text, None, None)?;
    /// template.set("enable_thinking", true);
    /// assert_eq!(template.fill(&[Message::new("user", "Why?")])?, "Why?<think>");
    /// # Ok::<(), kiln_models::Error>(())
    /// ```
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<serde_json::Value>) {
        self.variables.insert(name.into(), Value::from(Serde(value.into())));
    }

    /// The text of messages, up to where the model's answer begins.
    ///
    /// # Errors
    /// Messages that the template refuses, such as two of one role after each other.
    pub fn fill(&self, messages: &[Message]) -> Result<String> {
        let messages: Vec<Value> =
            messages.iter().map(|m| context! { role => &m.role, content => &m.content }).collect();
        let template = self.environment.get_template(NAME)?;
        Ok(template.render(context! {
            messages, add_generation_prompt => true, bos_token => &self.first, eos_token => &self.last,
            ..Value::from(self.variables.clone())
        })?)
    }
}

fn raise_exception(message: String) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
}

/// The time here, as `strftime` writes it.
fn strftime_now(format: &str) -> Result<String, minijinja::Error> {
    let now = jiff::fmt::strtime::format(format, &jiff::Zoned::now());
    now.map_err(|error| minijinja::Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// The template without the tags that mark what a model writes, which only training asks for; blocks that are
/// always there keep what they do to the spaces around.
fn without_generation(text: &str) -> String {
    let mut parts = text.split("{%");
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (tag, rest) = part.split_once("%}").unwrap_or((part, ""));
        let same = match tag.trim_matches(['-', '+']).trim() {
            "generation" => tag.replace("generation", "if true"),
            "endgeneration" => tag.replace("endgeneration", "endif"),
            _ => tag.into(),
        };
        plain += "{%";
        plain += &same;
        if part.len() > tag.len() {
            plain += "%}";
        }
        plain += rest;
    }
    plain
}
