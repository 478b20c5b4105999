//! How many kernels a generated token takes.

use kiln::nn::{AttentionLayerOpts, KvCache, ModuleExt, MultiheadAttention};
use kiln::prelude::*;

/// Kernels of a token that follows others, through so many layers of attention.
fn kernels(layers: usize) -> usize {
    let _no_grad = kiln::no_grad();
    let opts = AttentionLayerOpts::default().causal(true).rotary(1e4).kv_heads(2).bias(false);
    let layers: Vec<_> = (0..layers).map(|_| MultiheadAttention::new(32, 4, opts.clone(), ())).collect();
    let caches: Vec<KvCache> = layers.iter().map(|layer| layer.cache(1, 64)).collect();
    for param in layers.iter().flat_map(ModuleExt::parameters) {
        param.get().realize().unwrap();
    }
    let pass = |count: usize| {
        let (x, position) = (Tensor::ones([1, count, 32], ()), caches[0].position());
        let layers = layers.iter().zip(&caches);
        layers.fold(x, |x, (layer, cache)| layer.attend_cached_at(&x, cache, &position))
    };
    pass(3).realize().unwrap();
    pass(1).plan().unwrap().kernels.len()
}

#[test]
fn a_token_takes_seven_kernels_of_a_layers_attention() {
    // Four products, two appends, and the attention itself, which turns its queries; for all layers together the
    // angles' sines and cosines, and where to look.
    assert_eq!([1, 2, 5].map(kernels), [7 + 3, 2 * 7 + 3, 5 * 7 + 3]);
}
