//! Recurrent layers, on loops inside the graph: the time axis is a number, not
//! nodes.

use crate::base::{DType, Device, Result, Span};
use crate::nn::init;
use crate::nn::module::{Module, Visitor};
use crate::nn::module_region::in_module_of;
use crate::nn::param::Param;
use crate::tensor::compose::CallSite;
use crate::tensor::control::scan_at;
use crate::tensor::{Place, Tensor};

/// What a recurrent layer computes at each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellKind {
    Tanh,
    Lstm,
    Gru,
}

impl CellKind {
    /// Rows of a weight for each row of the state.
    fn gates(self) -> usize {
        match self {
            CellKind::Tanh => 1,
            CellKind::Lstm => 4,
            CellKind::Gru => 3,
        }
    }

    /// Number of tensors in the state.
    fn states(self) -> usize {
        match self {
            CellKind::Tanh | CellKind::Gru => 1,
            CellKind::Lstm => 2,
        }
    }

    /// The next state. `x` is the input's share of the gates, `h` the state's.
    fn next(self, x: &Tensor, h: &Tensor, state: &[Tensor]) -> Vec<Tensor> {
        match self {
            CellKind::Tanh => vec![(x + h).tanh()],
            CellKind::Lstm => {
                let gates = (x + h).chunk(4, -1);
                let [input, forget, new, output] = &gates[..] else { return vec![x + h; 2] };
                let cell = forget.sigmoid() * &state[1] + input.sigmoid() * new.tanh();
                vec![output.sigmoid() * cell.tanh(), cell]
            }
            CellKind::Gru => {
                let (x, h) = (x.chunk(3, -1), h.chunk(3, -1));
                let ([x_reset, x_update, x_new], [h_reset, h_update, h_new]) = (&x[..], &h[..]) else {
                    return vec![&x[0] + &h[0]];
                };
                let update = (x_update + h_update).sigmoid();
                let new = (x_new + (x_reset + h_reset).sigmoid() * h_new).tanh();
                vec![&new + &update * (&state[0] - &new)]
            }
        }
    }
}

/// The weights of one layer; the gates' rows follow each other.
#[derive(Debug)]
struct LayerWeights {
    input: Param,
    hidden: Param,
    input_bias: Param,
    hidden_bias: Param,
}

#[derive(Debug)]
struct Stack {
    kind: CellKind,
    hidden: usize,
    layers: Vec<LayerWeights>,
}

impl Module for Stack {
    fn visit(&self, visitor: &mut dyn Visitor) {
        for (number, layer) in self.layers.iter().enumerate() {
            visitor.param(&format!("weight_ih_l{number}"), &layer.input);
            visitor.param(&format!("weight_hh_l{number}"), &layer.hidden);
            visitor.param(&format!("bias_ih_l{number}"), &layer.input_bias);
            visitor.param(&format!("bias_hh_l{number}"), &layer.hidden_bias);
        }
    }
}

/// Layers at most: all are made at once.
const MOST_LAYERS: usize = 4096;

impl Stack {
    /// Too many layers are one, whose parameters are the error.
    fn new(kind: CellKind, inputs: usize, hidden: usize, layers: usize, place: Place) -> Stack {
        if layers > MOST_LAYERS {
            let site = CallSite::here("layers");
            let error = site.invalid(format!("at most {MOST_LAYERS} layers"), layers.to_string(), &[]);
            let none = || Param::new(error.clone());
            let layer =
                LayerWeights { input: none(), hidden: none(), input_bias: none(), hidden_bias: none() };
            return Stack { kind, hidden, layers: vec![layer] };
        }
        let rows = kind.gates().saturating_mul(hidden);
        let uniform = |shape: &[usize]| Param::new(init::fan_in_uniform(shape, hidden, place));
        let layer = |number| LayerWeights {
            input: uniform(&[rows, if number == 0 { inputs } else { hidden }]),
            hidden: uniform(&[rows, hidden]),
            input_bias: uniform(&[rows]),
            hidden_bias: uniform(&[rows]),
        };
        Stack { kind, hidden, layers: (0..layers).map(layer).collect() }
    }

    /// The last layer's states `[l, n, hidden]`, and the states at the end,
    /// each `[layers, n, hidden]`.
    fn forward(
        &self,
        site: CallSite,
        x: &Tensor,
        lengths: Option<&Tensor>,
        start: &[Tensor],
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let _line = site.span.enter();
        let x: &Tensor = &site.autocast(x);
        let start: Vec<Tensor> = start.iter().map(|state| site.autocast(state).into_owned()).collect();
        let [length, batch, _] = self.dims(site, x)?;
        let states = [self.layers.len(), batch, self.hidden];
        for state in &start {
            state.check()?;
            if state.shape()[..] != states {
                return Err(site.error(format!("states {states:?}"), state.shape().to_string(), &[x, state]));
            }
        }
        let inside = lengths.map(|lengths| inside(site, x, lengths, length, batch)).transpose()?;
        let zeros = || x.new_zeros([batch, self.hidden]);
        let mut y = x.clone();
        let mut ends = vec![Vec::new(); self.kind.states()];
        for (number, layer) in self.layers.iter().enumerate() {
            let own = |state: &Tensor| site.select_index(state, 0, number);
            let state: Vec<Tensor> = match &start[..] {
                [] => (0..self.kind.states()).map(|_| zeros()).collect(),
                given => given.iter().map(own).collect(),
            };
            // The input's share of all times is one product.
            let gates = y.linear(&layer.input.get(), Some(&layer.input_bias.get()));
            let (weight, bias) = (layer.hidden.get(), layer.hidden_bias.get());
            let walked: Vec<Tensor> = std::iter::once(gates).chain(inside.clone()).collect();
            let (last, stacked) = scan_at(site, &state, &walked, false, |state, at| {
                let next = self.kind.next(&at[0], &state[0].linear(&weight, Some(&bias)), state);
                let Some(inside) = at.get(1) else { return (next.clone(), vec![next[0].clone()]) };
                let kept = next.iter().zip(state).map(|(next, state)| inside.select(next, state));
                (kept.collect(), vec![inside.select(&next[0], 0.0)])
            });
            ends.iter_mut().zip(last).for_each(|(ends, last)| ends.push(last));
            y = stacked[0].clone();
        }
        y.check()?;
        Ok((y, ends.iter().map(|ends| Tensor::stack(ends, 0)).collect()))
    }

    fn dims(&self, site: CallSite, x: &Tensor) -> Result<[usize; 3]> {
        x.check()?;
        let weight = self.layers.first().map(|layer| layer.input.get());
        weight.as_ref().map_or(Ok(()), Tensor::check)?;
        let (shape, expected) = (x.shape(), weight.map_or(0, |weight| weight.shape()[1]));
        match shape[..] {
            [length, batch, inputs] if inputs == expected => Ok([length, batch, inputs]),
            _ => {
                let expected = format!("[length, batch, {expected}]");
                Err(site.error(expected, shape.to_string(), &[x]))
            }
        }
    }
}

/// Whether each time `[length, n, 1]` is within its sequence, of `lengths`
/// `[n]`.
fn inside(site: CallSite, x: &Tensor, lengths: &Tensor, length: usize, batch: usize) -> Result<Tensor> {
    lengths.check()?;
    if !lengths.dtype().is_int() || lengths.shape()[..] != [batch] {
        let found = format!("{}{}", lengths.dtype(), lengths.shape());
        return Err(site.error(format!("integer lengths [{batch}]"), found, &[x, lengths]));
    }
    let times = site.iota_along(length, 0, 3, DType::I64, x.device());
    Ok(times.lt(site.cast(lengths, DType::I64).reshape([1, batch, 1])))
}

/// What a forward pass gives: all outputs and the states at the end, or the
/// error in place of each.
fn settle(found: Result<(Tensor, Vec<Tensor>)>, states: usize) -> (Tensor, Vec<Tensor>) {
    found.unwrap_or_else(|error| {
        let invalid = Tensor::invalid(error);
        (invalid.clone(), vec![invalid; states])
    })
}

macro_rules! recurrent {
    ($($(#[doc = $doc:literal])+ $name:ident $kind:ident $call:literal ($($state:ident: $part:ident),+);)*) => {$(
        $(#[doc = $doc])+
        ///
        /// Parameters are named and laid out as in PyTorch: `weight_ih_l0`,
        /// `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, and so on by layer.
        #[derive(Debug)]
        pub struct $name {
            stack: Stack,
        }

        impl $name {
            /// `layers` layers, each on the states of the one below. All
            /// parameters are uniform within one over the root of `hidden`, as
            /// in PyTorch.
            #[track_caller]
            pub fn new(inputs: usize, hidden: usize, layers: usize, place: impl Into<Place>) -> $name {
                let _line = Span::caller().enter();
                $name { stack: Stack::new(CellKind::$kind, inputs, hidden, layers, place.into()) }
            }

            /// From inputs `[l, n, inputs]`, and states `[layers, n, hidden]`
            /// at the start (zeros if there are none), to the last layer's
            /// states at all times, `[l, n, hidden]`, and the states at the
            /// end. Invalid where shapes do not fit.
            #[track_caller]
            pub fn forward(&self, x: &Tensor, start: Option<recurrent!(@given $($part),+)>) -> (Tensor, recurrent!(@made $($part),+)) {
                self.walk(CallSite::here($call), x, None, start)
            }

            /// As [`Self::forward`] for sequences of `lengths` `[n]`, integers,
            /// padded to one length: the states at the end are those at each
            /// sequence's own, and its outputs behind it are zeros.
            ///
            /// Lengths are data: batches padded to one extent share a plan.
            #[track_caller]
            pub fn forward_padded(
                &self,
                x: &Tensor,
                lengths: &Tensor,
                start: Option<recurrent!(@given $($part),+)>,
            ) -> (Tensor, recurrent!(@made $($part),+)) {
                self.walk(CallSite::here($call), x, Some(lengths), start)
            }

            fn walk(
                &self,
                site: CallSite,
                x: &Tensor,
                lengths: Option<&Tensor>,
                start: Option<recurrent!(@given $($part),+)>,
            ) -> (Tensor, recurrent!(@made $($part),+)) {
                let _module = self.stack.layers.first().and_then(|layer| in_module_of(&layer.input, 0));
                let start: Vec<Tensor> = start.map_or_else(Vec::new, |recurrent!(@names $($state),+)| vec![$($state.clone()),+]);
                let (y, ends) = settle(self.stack.forward(site, x, lengths, &start), CellKind::$kind.states());
                let mut ends = ends.into_iter();
                $(let $state = ends.next().unwrap_or_else(|| y.clone());)+
                (y, recurrent!(@names $($state),+))
            }

            /// Where the parameters are.
            pub fn device(&self) -> Device {
                self.stack.layers.first().map_or(Device::cpu(), |layer| layer.input.device())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&$crate::nn::ModuleExt::tree(self), f)
            }
        }

        impl Module for $name {
            fn visit(&self, visitor: &mut dyn Visitor) {
                self.stack.visit(visitor);
            }
        }
    )*};
    (@given $a:ident) => { &$a };
    (@given $a:ident, $b:ident) => { (&$a, &$b) };
    (@made $a:ident) => { $a };
    (@made $a:ident, $b:ident) => { ($a, $b) };
    (@names $a:ident) => { $a };
    (@names $a:ident, $b:ident) => { ($a, $b) };
}

recurrent! {
    /// The hyperbolic tangent of an affine map of input and state (Elman
    /// 1990).
    Rnn Tanh "rnn" (hidden: Tensor);
    /// Long short-term memory (Hochreiter and Schmidhuber 1997); its state is
    /// the output and the cell.
    Lstm Lstm "lstm" (hidden: Tensor, cell: Tensor);
    /// Gated recurrent units (Cho et al. 2014), with the reset after the
    /// product as in PyTorch.
    Gru Gru "gru" (hidden: Tensor);
}
