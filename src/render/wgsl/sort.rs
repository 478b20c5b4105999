//! Sorting permutations: `shaders/sort.wgsl` sorts, and a generated header in
//! front of it says what.
//!
//! The header's hooks are what an element's key is and where its place goes.
//! Sizes are read by functions, so one compiled text serves several
//! ([`sized`](crate::render::wgsl::sized)); the launch's number says which part of the network it is.

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::Sort;
use crate::render::c_like::Dialect;
use crate::render::shader::{DISPATCH_START, Pass, PassBuffer, Shader, Unsupported, uniform_words};
use crate::render::target::{Adapter, GpuTarget};
use crate::render::wgsl::dialect::{Wgsl, word};
use crate::render::wgsl::memory::{AccessMode, BindingDeclarations, BufferView};
use crate::render::wgsl::sized::signed;
use crate::render::wgsl::thresholds;
use crate::render::wgsl::{Main, ModuleParts, check_type, hook, module};

const TEMPLATE: &str = include_str!("../../../shaders/sort.wgsl");

/// The extents of a sort.
struct WgslSortSizes {
    length: usize,
    padded: usize,
    inner: usize,
    lines: usize,
    /// Elements that a workgroup sorts in memory that it shares.
    block: usize,
    /// Words of a key with its place.
    words: usize,
}

impl WgslSortSizes {
    fn of(sort: &Sort, target: &GpuTarget) -> WgslSortSizes {
        // Nothing is launched for no elements, but the text must be valid.
        let length = sort.shape[sort.axis].max(1);
        let words = if sort.dtype.size() == 8 { 3 } else { 2 };
        let most = match target.adapter {
            Adapter::Software => thresholds::SOFTWARE_SORT_BLOCK,
            Adapter::Discrete | Adapter::Integrated => thresholds::GPU_SORT_BLOCK,
        };
        let shared = target.workgroup_bytes as usize / (4 * words);
        let most = most.min(2 * target.max_workgroup as usize).min(shared);
        WgslSortSizes {
            length,
            padded: length.next_power_of_two(),
            inner: sort.inner().max(1),
            lines: sort.shape.numel() / length,
            block: 1 << most.ilog2(),
            words,
        }
    }

    /// All elements, with those that lines are padded with.
    fn total(&self) -> usize {
        self.lines * self.padded
    }

    /// Launches: one for what blocks sort by themselves, and for each longer
    /// run one a stage between blocks and one for those within.
    fn launches(&self) -> u32 {
        let longer = self.padded.div_ceil(self.block).trailing_zeros();
        1 + longer * (longer + 3) / 2
    }
}

/// The shader of a sort.
///
/// # Errors
/// What the device lacks.
pub fn render(sort: &Sort, target: &GpuTarget) -> Result<Shader, Unsupported> {
    check_type(sort.dtype, target)?;
    let sizes = WgslSortSizes::of(sort, target);
    let words = sizes.total() * sizes.words;
    if words > i32::MAX as usize {
        return Err(Unsupported::Elements(words));
    }
    let bindings = bind(sort, &sizes, target);
    if bindings.slots.len() > target.max_buffers {
        return Err(Unsupported::Bindings { found: bindings.slots.len(), limit: target.max_buffers });
    }
    let source = module(&ModuleParts {
        title: "sort",
        adapter: target.adapter,
        inputs: 1,
        arguments: 0,
        bindings: &bindings,
        sizes_in_words: false,
        declarations: header(sort, &sizes, target),
        main: Main::Template(hook::template(TEMPLATE)),
    });
    let launches = sizes.launches();
    let pass = Pass {
        dispatch_stride: u32::from(launches > 1),
        dispatch_end: if launches > 1 { launches } else { 0 },
        uniform_words: uniform_words(1, 0),
        ..Pass::new(
            source,
            sizes.total().div_ceil(sizes.block) as u64,
            sizes.block as u32 / 2,
            bindings.slots,
        )
    };
    Ok(Shader { name: "sort".into(), passes: vec![pass], scratch: vec![4 * words] })
}

fn bind(sort: &Sort, sizes: &WgslSortSizes, target: &GpuTarget) -> BindingDeclarations {
    let mut bindings = BindingDeclarations::new(target);
    let mut view = |name: &str, memory, dtype, elements, access| {
        bindings.view(&BufferView { name: name.into(), memory, dtype, elements, run: 1, access });
    };
    let words = (sizes.total() * sizes.words) as u64;
    view("in0", PassBuffer::Input(0), sort.dtype, sort.shape.numel() as u64, AccessMode::Read);
    view("network", PassBuffer::Scratch(0), DType::U32, words, AccessMode::Update);
    view("out0", PassBuffer::Output(0), DType::I64, sort.result().numel() as u64, AccessMode::Write);
    bindings
}

/// What stands before the template.
fn header(sort: &Sort, sizes: &WgslSortSizes, target: &GpuTarget) -> String {
    let WgslSortSizes { length, inner, block, words, .. } = *sizes;
    let mut text = format!(
        "const BLOCK = {block};\nconst BLOCK_RUNS = {};\nalias Entry = vec{words}<u32>;\nconst PLACE = {};\n",
        block.trailing_zeros(),
        words - 1
    );
    let size = |x: usize| signed(x as i64);
    let numbers = [
        ("lines", size(sizes.lines)),
        ("length", size(length)),
        ("padded", size(sizes.padded)),
        ("count", size(sort.count)),
        ("launch_number", format!("i32({})", word(DISPATCH_START))),
    ];
    for (name, value) in numbers {
        let _ = writeln!(text, "fn {name}() -> i32 {{\n    return {value};\n}}");
    }
    let _ = writeln!(
        text,
        "fn element(line: i32, position: i32, extent: i32) -> i32 {{\n    \
         return (line / {0} * extent + position) * {0} + line % {0};\n}}",
        size(inner)
    );
    let parts = ["x", "y", "z"];
    let mut order = format!("a.{0} > b.{0}", parts[words - 1]);
    for part in parts[..words - 1].iter().rev() {
        order = format!("a.{part} > b.{part} || (a.{part} == b.{part} && ({order}))");
    }
    let word_at =
        |part: usize| if part == 0 { format!("at * {words}") } else { format!("at * {words} + {part}") };
    let taken: Vec<String> = (0..words).map(|part| format!("old_network({})", word_at(part))).collect();
    let put: String =
        (0..words).map(|part| format!("    network({}, x.{});\n", word_at(part), parts[part])).collect();
    let _ = write!(
        text,
        "fn entry_at(line: i32, position: i32) -> Entry {{\n    let x = in0(element(line, position, length()));\n{}}}\n\
         fn follows(a: Entry, b: Entry) -> bool {{\n    return {order};\n}}\n\
         fn take(at: i32) -> Entry {{\n    return Entry({});\n}}\n\
         fn put(at: i32, x: Entry) {{\n{put}}}\n\
         fn store_place(line: i32, position: i32, place: u32) {{\n    \
         out0(element(line, position, count()), {});\n}}\n",
        key(sort, target),
        taken.join(", "),
        Wgsl::new(1, target).widen("i32(place)")
    );
    text
}

/// The statements that give the key of the element `x`, with its place.
fn key(sort: &Sort, target: &GpuTarget) -> String {
    let bits = match sort.dtype {
        DType::Bool => "select(0u, 1u, x)",
        DType::U8 | DType::U32 => "x",
        DType::I32 => "bitcast<u32>(x) ^ 0x80000000u",
        DType::F16 | DType::BF16 | DType::F32 => "bitcast<u32>(rank_argmax_f32(x)) ^ 0x80000000u",
        DType::I64 if !target.int64 => "x ^ Words(0u, 0x80000000u)",
        DType::I64 => "bitcast<u64>(x) ^ 0x8000000000000000lu",
        DType::F64 => "bitcast<u64>(rank_argmax_f64(x)) ^ 0x8000000000000000lu",
    };
    let flip = if sort.descending { "~" } else { "" };
    let words = match sort.dtype.size() {
        8 if !target.int64 => "key.y, key.x",
        8 => "u32(key >> 32u), u32(key & 0xfffffffflu)",
        _ => "key",
    };
    format!("    let key = {flip}({bits});\n    return Entry({words}, u32(position));\n")
}
