//! Sorting permutations: a bitonic network over keys and places.
//!
//! Keys become unsigned integers that sort as the elements do; ties are
//! decided by the place, which makes the network stable. Lines are padded to a
//! power of two with keys above all. One launch per stage of the network.

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::Sort;
use crate::render::cuda::dialect::widened;
use crate::render::cuda::{Parameters, function, pass};
use crate::render::shader::{Memory, Pass, Shader, Unsupported};

const WORKGROUP: u32 = 256;

/// What the passes of a sort have in common.
struct Network {
    length: usize,
    padded: usize,
    inner: usize,
    lines: usize,
    /// The type of keys.
    key: &'static str,
    /// The type of positions.
    int: &'static str,
}

impl Network {
    fn of(sort: &Sort) -> Result<Network, Unsupported> {
        let length = sort.shape[sort.axis];
        let inner = sort.shape[sort.axis + 1..].iter().product();
        let padded = length.next_power_of_two();
        let lines = sort.shape.numel() / length.max(1);
        // Places are 32-bit numbers.
        if padded > i32::MAX as usize {
            return Err(Unsupported::Elements(padded));
        }
        let key = if sort.dtype.size() == 8 { "u64" } else { "u32" };
        let int = if lines * padded > i32::MAX as usize - WORKGROUP as usize { "i64" } else { "i32" };
        Ok(Network { length, padded, inner, lines, key, int })
    }

    /// Where the element of a line and a position along it lies.
    fn element(&self) -> String {
        let Network { length, inner, .. } = self;
        format!("line / {inner} * {} + line % {inner} + position * {inner}", length * inner)
    }

    fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::default();
        parameters.pointer(Memory::Scratch(0), self.key, "keys");
        parameters.pointer(Memory::Scratch(1), "u32", "places");
        parameters
    }

    fn pass(&self, title: &str, parameters: Parameters, invocations: usize, body: &str) -> Pass {
        let int = self.int;
        let body = format!(
            "    const {int} at = ({int})blockIdx.x * {WORKGROUP} + threadIdx.x;\n    \
             if (at >= {invocations}) return;\n{body}"
        );
        let source = function(title, &parameters, 0, WORKGROUP, &body);
        pass(source, parameters, WORKGROUP, (invocations as u64).div_ceil(u64::from(WORKGROUP)))
    }
}

/// The passes of a sort.
///
/// # Errors
/// Lines longer than 32-bit places.
pub fn render(sort: &Sort) -> Result<Shader, Unsupported> {
    let network = Network::of(sort)?;
    let total = network.lines * network.padded;
    let mut passes = vec![start(sort, &network)];
    let steps = network.padded.trailing_zeros();
    if steps > 0 {
        let mut stages = stages(&network);
        (stages.chunk, stages.chunks_end) = (1, steps * (steps + 1) / 2);
        passes.push(stages);
    }
    passes.push(end(&network));
    let key_bytes = if network.key == "u64" { 8 } else { 4 };
    Ok(Shader { name: "sort".into(), passes, scratch: vec![key_bytes * total, 4 * total] })
}

/// Keys and places as they are.
fn start(sort: &Sort, network: &Network) -> Pass {
    let mut parameters = network.parameters();
    parameters.input(0, sort.dtype);
    let key = match sort.dtype {
        DType::Bool | DType::U8 | DType::U32 => "(u32)x",
        DType::I32 => "(u32)x ^ 0x80000000u",
        DType::F16 | DType::BF16 | DType::F32 => "(u32)rank_argmax(x) ^ 0x80000000u",
        DType::I64 => "(u64)x ^ 0x8000000000000000ull",
        DType::F64 => "(u64)rank_argmax(x) ^ 0x8000000000000000ull",
    };
    let flip = if sort.descending { "~" } else { "" };
    let Network { padded, length, key: ty, int, .. } = network;
    let mut body = String::new();
    let _ = writeln!(body, "    const {int} line = at / {padded}, position = at % {padded};");
    let _ = writeln!(body, "    places[at] = (u32)position;");
    let _ = writeln!(body, "    if (position >= {length}) {{ keys[at] = ~({ty})0; return; }}");
    let _ =
        writeln!(body, "    const auto x = {};", widened(sort.dtype, &format!("in0[{}]", network.element())));
    let _ = writeln!(body, "    keys[at] = {flip}({key});");
    network.pass("sort: keys", parameters, network.lines * network.padded, &body)
}

/// One stage of the network: `first` says which.
fn stages(network: &Network) -> Pass {
    let Network { padded, key, int, .. } = network;
    let body = format!(
        "    // Stage 0 merges runs of 1; then 2 stages merge runs of 2, 3 of 4, ...\n    \
         i32 stage = (i32)first, run = 0;\n    \
         while (stage > run) {{ run += 1; stage -= run; }}\n    \
         const {int} distance = ({int})1 << (run - stage);\n    \
         const {int} low = at / distance * distance * 2 + at % distance, high = low + distance;\n    \
         const bool descends = ((low % {padded}) & (({int})2 << run)) != 0;\n    \
         const {key} a = keys[low], b = keys[high];\n    \
         const u32 p = places[low], q = places[high];\n    \
         if ((a > b || (a == b && p > q)) == descends) return;\n    \
         keys[low] = b;\n    keys[high] = a;\n    places[low] = q;\n    places[high] = p;\n"
    );
    network.pass("sort: a stage", network.parameters(), network.lines * padded / 2, &body)
}

/// The places, as the permutation.
fn end(network: &Network) -> Pass {
    let mut parameters = network.parameters();
    parameters.output(0, DType::I64);
    let Network { padded, length, int, .. } = network;
    let body = format!(
        "    const {int} line = at / {length}, position = at % {length};\n    \
         out0[{}] = places[line * {padded} + position];\n",
        network.element()
    );
    network.pass("sort: permutation", parameters, network.lines * length, &body)
}
