//! The composites that the library makes itself, and knows more of than their bodies.

/// A composite with templates or a rule for its gradient. Their attributes are
/// `scale`, `causal` and `gqa` (heads of the query share the keys').
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BuiltIn {
    /// Scaled dot-product attention of queries, keys, values and perhaps a mask.
    /// Queries have all axes of the result, keys and values the same ones.
    Attention,
    /// For each query of an attention, the logarithm of the sum of its scores' powers,
    /// from queries, keys and perhaps a mask.
    AttentionLogSum,
    /// The gradients of an attention's queries and keys, two results. The operands are
    /// queries, keys, values, the result's gradient, the [`BuiltIn::AttentionLogSum`],
    /// each row's product of result and gradient, and perhaps a mask. The body needs
    /// neither the sums nor the products: templates do, which compute scores again.
    AttentionBackward,
    /// The gradient of an attention's values, from queries, keys, the result's gradient,
    /// the [`BuiltIn::AttentionLogSum`], which the body does not need, and perhaps a mask.
    AttentionBackwardValues,
    /// The numbers of packed codes, from codes, scales and perhaps offsets; the attributes say how they are
    /// packed and of which type the numbers are.
    Dequantize,
}

impl BuiltIn {
    /// Those that a composite of a user can be, by its name.
    pub const ALL: [BuiltIn; 4] = [
        BuiltIn::Attention,
        BuiltIn::AttentionLogSum,
        BuiltIn::AttentionBackward,
        BuiltIn::AttentionBackwardValues,
    ];

    /// The name of the composite.
    pub const fn name(self) -> &'static str {
        match self {
            BuiltIn::Attention => "attention",
            BuiltIn::AttentionLogSum => "attention_log_sum",
            BuiltIn::AttentionBackward => "attention_backward",
            BuiltIn::AttentionBackwardValues => "attention_backward_values",
            BuiltIn::Dequantize => "dequantize",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<BuiltIn> {
        BuiltIn::ALL.into_iter().find(|built_in| built_in.name() == name)
    }

    /// The number of operands before a mask.
    pub const fn operands(self) -> usize {
        match self {
            BuiltIn::Attention => 3,
            BuiltIn::AttentionLogSum | BuiltIn::Dequantize => 2,
            BuiltIn::AttentionBackward => 6,
            BuiltIn::AttentionBackwardValues => 4,
        }
    }

    /// Whether operands and attributes determine the body.
    pub const fn determines_body(self) -> bool {
        match self {
            BuiltIn::Dequantize => true,
            BuiltIn::Attention | BuiltIn::AttentionLogSum => false,
            BuiltIn::AttentionBackward | BuiltIn::AttentionBackwardValues => false,
        }
    }
}
