//! Chat templates: how messages become the text that a model was trained with.

use minijinja::syntax::SyntaxConfig;
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
        environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_template_owned(NAME, text.to_string())?;
        Ok(ChatTemplate { environment, first: first.unwrap_or_default(), last: last.unwrap_or_default() })
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
        })?)
    }
}
