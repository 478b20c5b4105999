//! BindingDeclarations, and the functions that read and write elements through them.
//!
//! Every storage buffer is declared `read_write`, since wgpu tracks the use
//! of a whole buffer, and an input may be an output's memory; where that is
//! ruled out, inputs are read-only, so that one buffer may be several. Types below 32
//! bits lie packed in words: where whole words are not at hand, an element is
//! written by atomic operations on its own bits. Memory larger than one
//! binding is several bindings.

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::{Expr, Kernel};
use crate::render::c_like::Dialect;
use crate::render::shader::{BufferBinding, INPUT_OFFSETS, PassBuffer, Unsupported};
use crate::render::target::{Adapter, GpuTarget};
use crate::render::wgsl::dialect::{Wgsl, word};

/// Bytes by which a binding may start before the kernel's element 0.
const SLACK: u64 = 256;

/// How a function gets at memory.
#[derive(Clone, Debug)]
pub struct BufferView {
    /// The function's name.
    pub name: String,
    /// What it reads or writes.
    pub memory: PassBuffer,
    /// The elements' type.
    pub dtype: DType,
    /// One past the last element.
    pub elements: u64,
    /// Neighbours that it takes: 1, 4, or 8 of 32 bits.
    pub run: usize,
    /// What it does.
    pub access: AccessMode,
}

/// What a view is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Both, by one invocation per element.
    Update,
}

/// Declarations under construction.
#[derive(Debug)]
pub struct BindingDeclarations {
    /// The declarations and functions.
    pub text: String,
    /// What they bind.
    pub slots: Vec<BufferBinding>,
    /// What the entry point does first: drivers read uniforms again in
    /// each iteration of a loop.
    pub prologue: String,
    window: u64,
    /// Whether inputs are read-only.
    separate_buffers: bool,
    dialect: Wgsl,
    /// Whether four 32-bit elements are accessed as two 64-bit words: software
    /// drivers go through the words of an access one by one.
    long_words: bool,
}

impl BindingDeclarations {
    /// None yet.
    pub fn new(target: &GpuTarget) -> BindingDeclarations {
        // Windows start at multiples of every alignment.
        let window = target.max_binding / 1024 * 1024;
        let long_words = target.adapter == Adapter::Software && target.int64;
        BindingDeclarations {
            text: String::new(),
            slots: Vec::new(),
            prologue: String::new(),
            window,
            separate_buffers: target.separate_buffers,
            dialect: Wgsl::new(0, target),
            long_words,
        }
    }

    /// Binds memory, in as many pieces as it takes; gives their names and the
    /// elements (of `bytes` each) of a piece.
    fn bind(&mut self, view: &BufferView, element: &str, bytes: u64) -> (Vec<String>, u64) {
        let total = view.elements.max(1) * view.dtype.size() as u64 + SLACK;
        let pieces = total.div_ceil(self.window);
        let mode = match view.memory {
            PassBuffer::Input(_) if self.separate_buffers => "read",
            _ => "read_write",
        };
        let names = (0..pieces).map(|piece| {
            let name = format!("{}_{piece}", view.name);
            self.slots.push(BufferBinding { memory: view.memory, start: piece * self.window });
            let number = self.slots.len();
            let _ = writeln!(
                self.text,
                "@group(0) @binding({number}) var<storage, {mode}> {name}: array<{element}>;"
            );
            name
        });
        (names.collect(), self.window / bytes)
    }

    /// Declares where bad indices are reported.
    pub fn status(&mut self) {
        self.slots.push(BufferBinding { memory: PassBuffer::Status, start: 0 });
        let number = self.slots.len();
        let _ = writeln!(
            self.text,
            "@group(0) @binding({number}) var<storage, read_write> status: array<atomic<u32>>;"
        );
    }

    /// Declares a view and its function.
    pub fn view(&mut self, view: &BufferView) {
        match (view.access, view.run) {
            (AccessMode::Read, 1) => self.read(view),
            (AccessMode::Read, 8) => self.read_eight(view),
            (AccessMode::Read, _) => self.read_four(view),
            (AccessMode::Write, 1) => self.write(view, false),
            (AccessMode::Write, 8) => self.write_eight(view),
            (AccessMode::Write, _) => self.write_four(view),
            (AccessMode::Update, _) => self.write(view, true),
        }
    }

    /// The type of a word of memory, and elements in it.
    fn storage(&self, dtype: DType) -> (&'static str, u64) {
        match dtype {
            DType::Bool | DType::U8 => ("u32", 4),
            DType::F16 | DType::BF16 => ("u32", 2),
            DType::I32 | DType::U32 | DType::F32 | DType::I64 | DType::F64 => {
                (self.dialect.register(dtype), 1)
            }
        }
    }

    /// What is added to an element's number, or a group's: inputs may start anywhere.
    fn start(&mut self, view: &BufferView) -> String {
        let slot = match view.memory {
            PassBuffer::Input(slot) => slot,
            PassBuffer::Output(_) | PassBuffer::Scratch(_) | PassBuffer::Status => return String::new(),
        };
        let own = word(INPUT_OFFSETS + slot);
        let (name, ty, first) = match view.run {
            1 => ("offset", "u32", own),
            8 => ("vec8_offset", "i32", format!("i32({own} / 8u)")),
            _ => ("vec4_offset", "i32", format!("i32({own} / 4u)")),
        };
        let line = format!("    {name}{slot} = {first};\n");
        // Two inputs of a kernel may be one of the launch.
        if !self.prologue.contains(&line) {
            let _ = writeln!(self.text, "var<private> {name}{slot}: {ty};");
            self.prologue += &line;
        }
        format!(" + {name}{slot}")
    }

    fn read(&mut self, view: &BufferView) {
        let (element, per_word) = self.storage(view.dtype);
        let (names, window) = self.bind(view, element, 4.max(view.dtype.size() as u64));
        let offset = self.start(view);
        let ty = self.dialect.register(view.dtype);
        let body = pieces(&names, "e", window, per_word, &|place| {
            format!("return {};", unpack(view.dtype, place, "e"))
        });
        let _ = writeln!(
            self.text,
            "fn {}(at: i32) -> {ty} {{\n    let e = u32(at){offset};\n{body}}}",
            view.name
        );
    }

    fn read_four(&mut self, view: &BufferView) {
        let ty = self.dialect.register(view.dtype);
        let dtype = view.dtype;
        let (element, bytes) = match dtype {
            DType::Bool | DType::U8 => ("u32".to_string(), 4),
            DType::F16 | DType::BF16 => ("vec2<u32>".into(), 8),
            DType::I32 | DType::U32 | DType::F32 if self.long_words => ("vec2<u64>".into(), 16),
            DType::I32 | DType::U32 | DType::F32 => (format!("vec4<{ty}>"), 16),
            DType::I64 | DType::F64 => (format!("vec2<{ty}>"), 16),
        };
        let (names, window) = self.bind(view, &element, bytes);
        let long_words = self.long_words;
        let each = |x: [String; 4]| format!("return vec4<{ty}>({});", x.join(", "));
        let place = |place: &str| match dtype {
            DType::Bool => each([0, 8, 16, 24].map(|s| format!("(({place} >> {s}u) & 0xffu) != 0u"))),
            DType::U8 => each([0, 8, 16, 24].map(|s| format!("({place} >> {s}u) & 0xffu"))),
            DType::F16 | DType::BF16 => {
                let widen = if dtype == DType::F16 { "widen_f16" } else { "widen_bf16" };
                let half = |part: &str| {
                    [format!("{widen}({place}.{part} & 0xffffu)"), format!("{widen}({place}.{part} >> 16u)")]
                };
                let ([a, b], [c, d]) = (half("x"), half("y"));
                each([a, b, c, d])
            }
            DType::I32 | DType::U32 | DType::F32 if long_words => {
                format!("return bitcast<vec4<{ty}>>(words_of({place}));")
            }
            DType::I32 | DType::U32 | DType::F32 => format!("return {place};"),
            DType::I64 | DType::F64 => String::new(),
        };
        let body = if matches!(dtype, DType::I64 | DType::F64) {
            let low = pieces_value(&names, "e * 2u", window);
            let high = pieces_value(&names, "e * 2u + 1u", window);
            format!("    return vec4<{ty}>({low}, {high});\n")
        } else {
            pieces(&names, "e", window, 1, &place)
        };
        let _ = writeln!(
            self.text,
            "fn {0}(quad: i32) -> vec4<{ty}> {{\n    let e = u32(quad);\n{body}}}",
            view.name
        );
        self.begun(view);
    }

    /// The function that counts groups of neighbours from where memory begins.
    fn begun(&mut self, view: &BufferView) {
        let offset = self.start(view);
        let _ = writeln!(
            self.text,
            "fn {}_vector_index(group: i32) -> i32 {{\n    return group{offset};\n}}",
            view.name
        );
    }

    /// Eight elements as four 64-bit words, in and out of two vectors.
    fn read_eight(&mut self, view: &BufferView) {
        let ty = self.dialect.register(view.dtype);
        let (names, window) = self.bind(view, "vec4<u64>", 32);
        let structure = format!("struct Vec8_{ty} {{ low: vec4<{ty}>, high: vec4<{ty}> }}\n");
        if !self.text.contains(&structure) {
            self.text += &structure;
        }
        let half = |half: &str| format!("bitcast<vec4<{ty}>>(words_of(x.{half}))");
        let body = pieces(&names, "e", window, 1, &|place| format!("x = {place};"));
        let _ = writeln!(
            self.text,
            "fn {}(eighth: i32) -> Vec8_{ty} {{\n    let e = u32(eighth);\n    var x: vec4<u64>;\n{body}    \
             return Vec8_{ty}({}, {});\n}}",
            view.name,
            half("xy"),
            half("zw")
        );
        self.begun(view);
    }

    fn write_eight(&mut self, view: &BufferView) {
        let ty = self.dialect.register(view.dtype);
        let (names, window) = self.bind(view, "vec4<u64>", 32);
        let half = |x: &str| format!("long_words(bitcast<vec4<u32>>({x}))");
        let value = format!("vec4<u64>({}, {})", half("low"), half("high"));
        let body = pieces(&names, "e", window, 1, &|place| format!("{place} = {value};"));
        let _ = writeln!(
            self.text,
            "fn {}(eighth: i32, low: vec4<{ty}>, high: vec4<{ty}>) {{\n    let e = u32(eighth);\n{body}}}",
            view.name
        );
    }

    fn write(&mut self, view: &BufferView, update: bool) {
        let (element, per_word) = self.storage(view.dtype);
        let packed = per_word > 1;
        let element = if packed { "atomic<u32>" } else { element };
        let (names, window) = self.bind(view, element, 4.max(view.dtype.size() as u64));
        let (name, ty) = (&view.name, self.dialect.register(view.dtype));
        let put = |place: &str| {
            if !packed {
                return format!("{place} = x;");
            }
            let (mask, shift) = bits(view.dtype);
            format!(
                "atomicAnd(&{place}, ~({mask} << {shift})); atomicOr(&{place}, {} << {shift});",
                pack(view.dtype, "x")
            )
        };
        let body = pieces(&names, "e", window, per_word, &put);
        let _ = writeln!(self.text, "fn {name}(at: i32, x: {ty}) {{\n    let e = u32(at);\n{body}}}");
        if update {
            let get = |place: &str| {
                let place = if packed { format!("atomicLoad(&{place})") } else { place.into() };
                format!("return {};", unpack(view.dtype, &place, "e"))
            };
            let body = pieces(&names, "e", window, per_word, &get);
            let _ = writeln!(self.text, "fn old_{name}(at: i32) -> {ty} {{\n    let e = u32(at);\n{body}}}");
        }
    }

    fn write_four(&mut self, view: &BufferView) {
        let ty = self.dialect.register(view.dtype);
        let dtype = view.dtype;
        let (element, bytes) = match dtype {
            DType::Bool | DType::U8 => ("u32".to_string(), 4),
            DType::F16 | DType::BF16 => ("vec2<u32>".into(), 8),
            DType::I32 | DType::U32 | DType::F32 if self.long_words => ("vec2<u64>".into(), 16),
            DType::I32 | DType::U32 | DType::F32 => (format!("vec4<{ty}>"), 16),
            DType::I64 | DType::F64 => (format!("vec2<{ty}>"), 16),
        };
        let (names, window) = self.bind(view, &element, bytes);
        let p = |x: &str| pack(dtype, x);
        let (value, halves) = match dtype {
            DType::Bool | DType::U8 => {
                (format!("{} | ({} << 8u) | ({} << 16u) | ({} << 24u)", p("a"), p("b"), p("c"), p("d")), None)
            }
            DType::F16 | DType::BF16 => (
                format!("vec2<u32>({} | ({} << 16u), {} | ({} << 16u))", p("a"), p("b"), p("c"), p("d")),
                None,
            ),
            DType::I32 | DType::U32 | DType::F32 if self.long_words => {
                (format!("long_words(bitcast<vec4<u32>>(vec4<{ty}>(a, b, c, d)))"), None)
            }
            DType::I32 | DType::U32 | DType::F32 => (format!("vec4<{ty}>(a, b, c, d)"), None),
            DType::I64 | DType::F64 => (format!("vec2<{ty}>(a, b)"), Some(format!("vec2<{ty}>(c, d)"))),
        };
        let body = match halves {
            None => pieces(&names, "e", window, 1, &|place| format!("{place} = {value};")),
            Some(second) => {
                pieces(&names, "(e * 2u)", window, 1, &|place| format!("{place} = {value};"))
                    + &pieces(&names, "(e * 2u + 1u)", window, 1, &|place| format!("{place} = {second};"))
            }
        };
        let _ = writeln!(
            self.text,
            "fn {}(quad: i32, a: {ty}, b: {ty}, c: {ty}, d: {ty}) {{\n    let e = u32(quad);\n{body}}}",
            view.name
        );
    }
}

/// The statement for an element, in whichever of the pieces it lies.
fn pieces(names: &[String], e: &str, window: u64, per_word: u64, body: &dyn Fn(&str) -> String) -> String {
    let index = |base: u64| {
        let word = if per_word == 1 { e.to_string() } else { format!("({e} / {per_word}u)") };
        if base == 0 { word } else { format!("{word} - {base}u") }
    };
    let last = names.len() - 1;
    let mut text = String::new();
    for (number, name) in names.iter().enumerate() {
        let base = number as u64 * window;
        let statement = body(&format!("{name}[{}]", index(base)));
        if number == last {
            let _ = writeln!(
                text,
                "    {}{statement}{}",
                if last > 0 { "{ " } else { "" },
                if last > 0 { " }" } else { "" }
            );
        } else {
            let _ = write!(text, "    if ({} < {}u) {{ {statement} }} else", index(0), base + window);
        }
    }
    text
}

/// The value of a word in whichever of the pieces it lies.
fn pieces_value(names: &[String], e: &str, window: u64) -> String {
    let mut value = format!("{}[{e} - {}u]", names[names.len() - 1], (names.len() as u64 - 1) * window);
    for (number, name) in names[..names.len() - 1].iter().enumerate().rev() {
        let base = number as u64 * window;
        // Both are read; the one outside its piece reads that piece's start.
        let own = format!("({e} >= {base}u && {e} < {}u)", base + window);
        value = format!("select({value}, {name}[select(0u, {e} - {base}u, {own})], {own})");
    }
    value
}

/// The mask of an element's bits and their place in its word.
fn bits(dtype: DType) -> (&'static str, &'static str) {
    match dtype.size() {
        1 => ("0xffu", "((e & 3u) * 8u)"),
        _ => ("0xffffu", "((e & 1u) * 16u)"),
    }
}

/// An element from the word that holds it.
fn unpack(dtype: DType, word: &str, _e: &str) -> String {
    let (mask, shift) = bits(dtype);
    let raw = format!("(({word} >> {shift}) & {mask})");
    match dtype {
        DType::Bool => format!("{raw} != 0u"),
        DType::U8 => raw,
        DType::F16 => format!("widen_f16({raw})"),
        DType::BF16 => format!("widen_bf16({raw})"),
        DType::I32 | DType::U32 | DType::I64 | DType::F32 | DType::F64 => word.into(),
    }
}

/// The bits of an element, at the low end of a word.
fn pack(dtype: DType, x: &str) -> String {
    match dtype {
        DType::Bool => format!("select(0u, 1u, {x})"),
        DType::F16 => format!("narrow_f16({x})"),
        DType::BF16 => format!("narrow_bf16({x})"),
        DType::U8 | DType::I32 | DType::U32 | DType::I64 | DType::F32 | DType::F64 => x.into(),
    }
}

/// One past the last element that loads of each input reach.
///
/// # Errors
/// More elements than 32-bit addresses reach.
pub fn accessed_extents(kernel: &Kernel) -> Result<Vec<u64>, Unsupported> {
    let mut reaches: Vec<u64> = vec![1; kernel.inputs.len()];
    for node in &kernel.exprs {
        let Expr::Load(slot, access) = &node.expr else { continue };
        let mut high = access.affine.range(&kernel.axes).1;
        for part in &access.dynamic {
            high += part.stride.max(0) * (part.extent as i64 - 1).max(0);
        }
        let reach = &mut reaches[*slot as usize];
        *reach = (*reach).max((high + 1).max(1) as u64);
    }
    match reaches.iter().find(|&&reach| reach > i32::MAX as u64) {
        Some(&reach) => Err(Unsupported::Elements(reach as usize)),
        None => Ok(reaches),
    }
}
