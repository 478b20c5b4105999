//! Sorting permutations: a bitonic network over keys and places.
//!
//! Keys become unsigned integers that sort as the elements do; ties are
//! decided by the place, which makes the network stable. Lines are padded to a
//! power of two with keys above all. One launch per stage of the network.

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::Sort;
use crate::render::shader::{FIRST, Memory, Pass, Shader, Unsupported, block_words};
use crate::render::target::Target;
use crate::render::wgsl::dialect::word;
use crate::render::wgsl::memory::{Access, Bindings, View};
use crate::render::wgsl::{Main, Parts, check_type, module};

const WORKGROUP: u32 = 64;

/// The extents of a sort.
struct Sizes {
    length: usize,
    padded: usize,
    inner: usize,
    lines: usize,
}

/// The shaders of a sort.
///
/// # Errors
/// What the device lacks.
pub fn render(sort: &Sort, target: &Target) -> Result<Shader, Unsupported> {
    check_type(sort.dtype, target)?;
    check_type(DType::I64, target)?;
    // Nothing is launched for no elements, but the text must be valid.
    let length = sort.shape[sort.axis].max(1);
    let inner = sort.shape[sort.axis + 1..].iter().product::<usize>().max(1);
    let padded = length.next_power_of_two();
    let sizes = Sizes { length, padded, inner, lines: sort.shape.numel() / length };
    let total = sizes.lines * padded;
    if total > i32::MAX as usize {
        return Err(Unsupported::Elements(total));
    }
    let wide = sort.dtype.size() == 8;
    let mut passes = vec![start(sort, &sizes, target, wide)];
    let steps = padded.trailing_zeros();
    if steps > 0 {
        let mut stages = stages(&sizes, target, wide);
        (stages.chunk, stages.chunks_end) = (1, steps * (steps + 1) / 2);
        passes.push(stages);
    }
    passes.push(end(&sizes, target));
    let scratch = if wide { vec![4 * total; 3] } else { vec![4 * total; 2] };
    Ok(Shader { name: "sort".into(), passes, scratch })
}

/// Binds a block of the network's words.
fn bind(bindings: &mut Bindings, name: &str, number: usize, sizes: &Sizes) {
    bindings.view(&View {
        name: name.into(),
        memory: Memory::Scratch(number),
        dtype: DType::U32,
        elements: (sizes.lines * sizes.padded) as u64,
        four: false,
        access: Access::Update,
    });
}

fn bind_network(bindings: &mut Bindings, sizes: &Sizes, wide: bool) {
    bind(bindings, "place", 0, sizes);
    bind(bindings, "key", 1, sizes);
    if wide {
        bind(bindings, "key_low", 2, sizes);
    }
}

fn pass(title: &str, bindings: Bindings, invocations: usize, body: &str) -> Pass {
    let body = format!(
        "    let at = i32((group.y * groups.x + group.x) * {WORKGROUP}u + local);\n    \
         if (at >= {invocations}) {{ return; }}\n{body}"
    );
    let source = module(&Parts {
        title,
        inputs: 1,
        arguments: 0,
        bindings: &bindings.text,
        declarations: String::new(),
        main: Main::Body { workgroup: WORKGROUP, subgroups: false, text: &body },
    });
    let groups = (invocations as u64).div_ceil(u64::from(WORKGROUP));
    let words = block_words(1, 0);
    Pass {
        source,
        groups,
        workgroup: WORKGROUP,
        chunk: 0,
        chunks_end: 0,
        slots: bindings.slots,
        words,
        fours: Vec::new(),
    }
}

/// Where the element of a line and a position along it lies.
fn element(sizes: &Sizes) -> String {
    let Sizes { length, inner, .. } = sizes;
    format!("line / {inner} * {} + line % {inner} + position * {inner}", length * inner)
}

/// Keys and places as they are.
fn start(sort: &Sort, sizes: &Sizes, target: &Target, wide: bool) -> Pass {
    let mut bindings = Bindings::new(target);
    bindings.view(&View {
        name: "in0".into(),
        memory: Memory::Input(0),
        dtype: sort.dtype,
        elements: sort.shape.numel() as u64,
        four: false,
        access: Access::Read,
    });
    bind_network(&mut bindings, sizes, wide);
    let key = match sort.dtype {
        DType::Bool => "select(0u, 1u, x)",
        DType::U8 | DType::U32 => "x",
        DType::I32 => "bitcast<u32>(x) ^ 0x80000000u",
        DType::F16 | DType::BF16 | DType::F32 => "bitcast<u32>(rank_argmax_f32(x)) ^ 0x80000000u",
        DType::I64 => "bitcast<u64>(x) ^ 0x8000000000000000lu",
        DType::F64 => "bitcast<u64>(rank_argmax_f64(x)) ^ 0x8000000000000000lu",
    };
    let flip = if sort.descending { "~" } else { "" };
    let Sizes { padded, length, .. } = sizes;
    let mut body = format!("    let line = at / {padded};\n    let position = at % {padded};\n");
    let _ = writeln!(body, "    place(at, u32(position));");
    let _ = writeln!(body, "    if (position >= {length}) {{");
    let _ = writeln!(body, "        key(at, 0xffffffffu);");
    if wide {
        let _ = writeln!(body, "        key_low(at, 0xffffffffu);");
    }
    let _ = writeln!(body, "        return;\n    }}");
    let _ = writeln!(body, "    let x = in0({});", element(sizes));
    let _ = writeln!(body, "    let bits = {flip}({key});");
    if wide {
        let _ = writeln!(body, "    key(at, u32(bits >> 32u));");
        let _ = writeln!(body, "    key_low(at, u32(bits & 0xfffffffflu));");
    } else {
        let _ = writeln!(body, "    key(at, bits);");
    }
    pass("sort: keys", bindings, sizes.lines * sizes.padded, &body)
}

/// One stage of the network: the launch's number says which.
fn stages(sizes: &Sizes, target: &Target, wide: bool) -> Pass {
    let mut bindings = Bindings::new(target);
    bind_network(&mut bindings, sizes, wide);
    let mut body = format!(
        "    // Stage 0 merges runs of 1; then 2 stages merge runs of 2, 3 of 4, ...\n    \
         var stage = i32({});\n    var run = 0;\n    \
         while (stage > run) {{\n        run += 1;\n        stage -= run;\n    }}\n    \
         let distance = 1 << u32(run - stage);\n    \
         let low = at / distance * distance * 2 + at % distance;\n    let high = low + distance;\n    \
         let descends = ((low % {}) & (2 << u32(run))) != 0;\n",
        word(FIRST),
        sizes.padded
    );
    let names: &[&str] = if wide { &["key", "key_low", "place"] } else { &["key", "place"] };
    for name in names {
        let _ = writeln!(body, "    let {name}_a = old_{name}(low);\n    let {name}_b = old_{name}(high);");
    }
    let mut order = "place_a > place_b".to_string();
    for name in names.iter().rev().skip(1) {
        order = format!("({name}_a > {name}_b || ({name}_a == {name}_b && {order}))");
    }
    let _ = writeln!(body, "    if ({order} == descends) {{ return; }}");
    for name in names {
        let _ = writeln!(body, "    {name}(low, {name}_b);\n    {name}(high, {name}_a);");
    }
    pass("sort: a stage", bindings, sizes.lines * sizes.padded / 2, &body)
}

/// The places, as the permutation.
fn end(sizes: &Sizes, target: &Target) -> Pass {
    let mut bindings = Bindings::new(target);
    bind(&mut bindings, "place", 0, sizes);
    bindings.view(&View {
        name: "out0".into(),
        memory: Memory::Output(0),
        dtype: DType::I64,
        elements: (sizes.lines * sizes.length) as u64,
        four: false,
        access: Access::Write,
    });
    let Sizes { padded, length, .. } = sizes;
    let body = format!(
        "    let line = at / {length};\n    let position = at % {length};\n    \
         out0({}, i64(old_place(line * {padded} + position)));\n",
        element(sizes)
    );
    pass("sort: permutation", bindings, sizes.lines * sizes.length, &body)
}
