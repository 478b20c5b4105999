//! Tokens as a session's model picks them, guessed or not.

use kiln::grad::without_grad;
use kiln::nn::{GenerateOpts, KvCache, Speculation, Tokens, generate, speculate};
use kiln::tensor::Tensor;

use crate::text::guesses::Guesser;
use crate::text::language_model::LanguageModel;

type Step<'a> = Box<dyn FnMut(&Tensor) -> Tensor + 'a>;
type Guess<'a> = Box<dyn FnMut(&[i64]) -> kiln::Result<Vec<i64>> + 'a>;

pub(super) enum TokenStream<'a> {
    Generated(Tokens<Step<'a>>),
    Guessed(Speculation<'a, Guess<'a>, Step<'a>>),
}

impl<'a> TokenStream<'a> {
    /// What follows `new` tokens, which follow those in the caches.
    pub(super) fn new(
        model: &'a LanguageModel,
        caches: &'a [KvCache],
        new: &[i64],
        opts: GenerateOpts,
    ) -> TokenStream<'a> {
        let (model, decoder) = (model.model(), model.model().decoder());
        let step: Step<'a> = Box::new(move |tokens| decoder.next(tokens, caches));
        TokenStream::Generated(generate(new, opts, model.norm.weight.device(), step))
    }

    /// The same with guesses, by all tokens: those in the caches are `before`.
    pub(super) fn guessed(
        model: &'a LanguageModel,
        caches: &'a [KvCache],
        guesser: &'a mut Guesser<'_>,
        [before, new]: [&[i64]; 2],
        mut opts: GenerateOpts,
    ) -> TokenStream<'a> {
        let (model, decoder, before) = (model.model(), model.model().decoder(), before.to_vec());
        opts.guesses = guesser.count;
        let guess: Guess<'a> = Box::new(move |new| guesser.guess(&[&before, new].concat()));
        let step: Step<'a> = Box::new(move |tokens| decoder.next_all(tokens, caches));
        TokenStream::Guessed(speculate(new, opts, model.norm.weight.device(), caches, guess, step))
    }

    pub(super) fn next(&mut self) -> Option<kiln::Result<i64>> {
        without_grad(|| match self {
            TokenStream::Generated(tokens) => tokens.next(),
            TokenStream::Guessed(tokens) => tokens.next(),
        })
    }

    pub(super) async fn next_async(&mut self) -> Option<kiln::Result<i64>> {
        match self {
            TokenStream::Generated(tokens) => without_grad(|| tokens.next_async()).await,
            TokenStream::Guessed(tokens) => without_grad(|| tokens.next_async()).await,
        }
    }

    /// How many tokens were guessed, and how many of these guesses were right.
    pub(super) fn guesses(&self) -> (usize, usize) {
        match self {
            TokenStream::Generated(_) => (0, 0),
            TokenStream::Guessed(tokens) => (tokens.guessed(), tokens.accepted()),
        }
    }
}
