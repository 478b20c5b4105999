//! The functions that kernels call: those of `prelude.wgsl`, `prelude64.wgsl`, `prelude64_trigonometry.wgsl`
//! and `prelude_words.wgsl` that a text needs, with GPUs' own in `prelude_gpu.wgsl` and those without loops in
//! `prelude_straight.wgsl`.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::render::target::Adapter;

/// Functions, each under its name.
type PreludeFunctions = Vec<(&'static str, &'static str)>;

/// The texts with the functions of all adapters.
const TEXTS: [&str; 4] = [
    include_str!("prelude.wgsl"),
    include_str!("prelude64.wgsl"),
    include_str!("prelude64_trigonometry.wgsl"),
    include_str!("prelude_words.wgsl"),
];

/// What software drivers get.
static SOFTWARE: LazyLock<PreludeFunctions> =
    LazyLock::new(|| TEXTS.into_iter().flat_map(functions).collect());

/// What software drivers get for more than [`LOOPS`] calls: the same without loops.
static STRAIGHT: LazyLock<PreludeFunctions> = LazyLock::new(|| with(include_str!("prelude_straight.wgsl")));

/// What GPUs get: the same, but for functions that those need otherwise.
static GPUS: LazyLock<PreludeFunctions> = LazyLock::new(|| with(include_str!("prelude_gpu.wgsl")));

/// How many calls of a function with a loop software drivers compile well: they inline each, and take time
/// cubic in the number of loops (12 remainders: 18 s; without loops 1.3 s, but twice the time to run).
const LOOPS: usize = 2;

/// The functions of software drivers, with some replaced and those added that these need.
fn with(text: &'static str) -> PreludeFunctions {
    let mut own = functions(text);
    let replaced: HashMap<_, _> = own.iter().copied().collect();
    own.retain(|(name, _)| SOFTWARE.iter().all(|(other, _)| other != name));
    let kept = SOFTWARE.iter().map(|(name, text)| (*name, replaced.get(name).copied().unwrap_or(text)));
    own.into_iter().chain(kept).collect()
}

/// The functions of a text.
fn functions(text: &'static str) -> PreludeFunctions {
    let mut found = Vec::new();
    // A function, with the comment before it, ends at a brace of its own.
    let mut rest = text;
    while let Some(end) = rest.find("\n}\n") {
        let (own, after) = rest.split_at(end + 3);
        if let Some(start) = own.find("fn ") {
            let name = own[start + 3..].split('(').next().unwrap_or_default();
            // A variable of the kernel's comes with the function before which it stands.
            let first = own.find("var<private>").map_or(start, |variable| variable.min(start));
            found.push((name, own[first..].trim_start()));
        }
        rest = after;
    }
    found
}

/// The functions that a text calls on an adapter, and those that they call, in the
/// library's order.
pub fn needed(text: &str, adapter: Adapter) -> String {
    let library: &PreludeFunctions = match adapter {
        Adapter::Software if text.matches("remainder_f32(").count() > LOOPS => &STRAIGHT,
        Adapter::Software => &SOFTWARE,
        Adapter::Discrete | Adapter::Integrated => &GPUS,
    };
    let places: HashMap<&str, usize> = library.iter().enumerate().map(|(i, (name, _))| (*name, i)).collect();
    let mut wanted = vec![false; library.len()];
    let mut pending = vec![text];
    while let Some(text) = pending.pop() {
        for name in calls(text) {
            if let Some(&place) = places.get(name)
                && !wanted[place]
            {
                wanted[place] = true;
                pending.push(body(library[place].1));
            }
        }
    }
    library.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|((_, text), _)| *text).collect()
}

/// A function's text after its name.
fn body(text: &str) -> &str {
    text.split_once("fn ").and_then(|(_, own)| own.split_once('(')).map_or("", |(_, rest)| rest)
}

/// The names followed by a parenthesis.
fn calls(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('(').map(|(end, _)| {
        let before = text[..end].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        &text[before.len()..end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_called_comes_along() {
        let text = needed("let x = maximum_f32(a, b);", Adapter::Software);
        assert!(text.contains("fn maximum_f32(") && text.contains("fn rank_max_f32("), "{text}");
        assert!(!text.contains("fn exp_f32("), "{text}");
        assert_eq!(needed("let x = a + b;", Adapter::Software), "");
    }

    /// Drivers inline every call, and take time quadratic in the number of arrays.
    #[test]
    fn no_function_indexes_an_array_of_its_own() {
        for (name, text) in SOFTWARE.iter().chain(GPUS.iter()) {
            assert!(!body(text).contains("array<"), "{name}");
        }
        let text = needed("sin_f64(x)", Adapter::Software);
        assert_eq!(text.matches("var<private> long_turns").count(), 1, "{text}");
    }

    #[test]
    fn gpus_have_functions_of_their_own_in_the_places_of_others() {
        let own = functions(include_str!("prelude_gpu.wgsl"));
        for (name, text) in &own {
            let place = |library: &PreludeFunctions| library.iter().position(|(other, _)| other == name);
            assert!(place(&SOFTWARE).is_some() && place(&SOFTWARE) == place(&GPUS), "{name}");
            let call = format!("{name}(");
            assert!(needed(&call, Adapter::Integrated).contains(text), "{name}");
            assert!(!needed(&call, Adapter::Software).contains(text), "{name}");
        }
        // What only they call comes along too, before them.
        let text = needed("divide_f32(a, b)", Adapter::Discrete);
        let opaque = text.find("fn opaque_f32(").expect("a hidden divisor");
        assert!(opaque < text.find("fn divide_f32(").expect("a quotient"), "{text}");
    }

    #[test]
    fn many_remainders_have_no_loops() {
        let few = "let a = remainder_f32(remainder_f32(x, y), z);";
        let many = format!("{few} {few}");
        assert!(needed(few, Adapter::Software).contains("while ("));
        let straight = needed(&many, Adapter::Software);
        assert!(straight.contains("fn remainder_step(") && !straight.contains("while ("), "{straight}");
        assert!(needed(&many, Adapter::Discrete).contains("while ("));
    }
}
