//! Sorting permutations: `kernels/sort.cuh` sorts, and a generated header in front of
//! it says what: the extents, what an element's key is, and where its place goes.

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::Sort;
use crate::render::c_like::hook::template;
use crate::render::cuda::dialect::widened;
use crate::render::cuda::thresholds::{SELECTION_FRACTION, SELECTION_SEGMENT, SORT_SEGMENT, SORT_THREADS};
use crate::render::cuda::{Parameters, function, method, pass};
use crate::render::shader::{PassBuffer, Shader, Unsupported};

const TEMPLATE: &str = include_str!("../../../kernels/sort.cuh");

/// The extents of a sort.
struct CudaSortSizes {
    length: usize,
    padded: usize,
    inner: usize,
    lines: usize,
    /// Elements that a block sorts in memory that it shares.
    segment: usize,
    /// Those that it keeps.
    selected: usize,
    /// The type of keys, and its bytes.
    key: (&'static str, usize),
    /// The type of positions.
    place: &'static str,
}

impl CudaSortSizes {
    fn of(sort: &Sort) -> Result<CudaSortSizes, Unsupported> {
        let length = sort.shape[sort.axis].max(1);
        let padded = length.next_power_of_two();
        let lines = sort.shape.numel() / length;
        // Places are 32-bit numbers, and so are the numbers of blocks.
        let [most, least] = SORT_SEGMENT;
        if padded > i32::MAX as usize || lines.saturating_mul(padded) / least > i32::MAX as usize {
            return Err(Unsupported::Elements(lines.saturating_mul(padded)));
        }
        let total = lines * padded;
        let key = if sort.dtype.size() == 8 { ("u64", 8) } else { ("u32", 4) };
        let inner = sort.inner().max(1);
        let few = sort.count.next_power_of_two();
        let selects = few <= SELECTION_SEGMENT / SELECTION_FRACTION && padded > SELECTION_SEGMENT;
        let most = if selects { SELECTION_SEGMENT } else { most };
        let segment = total.next_power_of_two().clamp(least, most);
        let selected = if selects { few } else { segment };
        let place = if total > i32::MAX as usize - most { "i64" } else { "i32" };
        Ok(CudaSortSizes { length, padded, inner, lines, segment, selected, key, place })
    }

    /// All elements, with those that lines are padded with.
    fn total(&self) -> usize {
        self.lines * self.padded
    }

    /// Whether stretches keep but their first entries.
    fn selects(&self) -> bool {
        self.selected < self.segment
    }

    /// Entries between launches.
    fn entries(&self) -> usize {
        if !self.selects() {
            return self.total();
        }
        let first = self.lines * self.padded / self.segment * self.selected;
        2 * first
    }

    /// Launches: one for what blocks sort by themselves, and for each longer run one a
    /// stage between blocks and one for those within; of few entries, one each time that
    /// stretches keep theirs.
    fn launches(&self) -> u32 {
        if self.selects() {
            let left =
                |&padded: &usize| (padded > self.segment).then(|| padded / self.segment * self.selected);
            return std::iter::successors(Some(self.padded), left).count() as u32;
        }
        let longer = self.padded.div_ceil(self.segment).trailing_zeros();
        1 + longer * (longer + 3) / 2
    }
}

/// The pass of a sort.
///
/// # Errors
/// Lines longer than 32-bit places.
pub fn render(sort: &Sort) -> Result<Shader, Unsupported> {
    let sizes = CudaSortSizes::of(sort)?;
    let mut parameters = Parameters::default();
    parameters.pointer(PassBuffer::Scratch(0), sizes.key.0, "keys");
    parameters.pointer(PassBuffer::Scratch(1), "u32", "places");
    parameters.input(0, sort.dtype);
    parameters.output(0, DType::I64);
    let threads = (sizes.segment / 2).min(SORT_THREADS) as u32;
    let way = if sizes.selects() { "select" } else { "sort" };
    let body = format!("    {way}(Sort{{{}}});\n", parameters.names(0).join(", "));
    let source = header(sort, &sizes, &parameters)
        + template(TEMPLATE)
        + &function("sort", &parameters, 0, threads, &body);
    let launches = sizes.launches();
    let mut pass = pass(source, parameters, threads, sizes.total().div_ceil(sizes.segment) as u64);
    let mut scratch = vec![0; 2];
    if launches > 1 {
        (pass.dispatch_stride, pass.dispatch_end) = (1, launches);
        scratch = vec![sizes.key.1 * sizes.entries(), 4 * sizes.entries()];
    }
    Ok(Shader { name: "sort".into(), passes: vec![pass], scratch })
}

/// What stands before the template.
fn header(sort: &Sort, sizes: &CudaSortSizes, parameters: &Parameters) -> String {
    let CudaSortSizes { length, padded, inner, lines, segment, selected, key: (key, _), place } = *sizes;
    let mut text = format!("typedef {key} Key;\ntypedef {place} Place;\n");
    let (runs, all) = (segment.trailing_zeros(), padded.trailing_zeros());
    let _ = writeln!(text, "constexpr i32 SEGMENT = {segment}, SEGMENT_RUNS = {runs}, RUNS = {all};");
    let _ = writeln!(text, "constexpr Place LINES = {lines}, LENGTH = {length}, PADDED = {padded};");
    let _ = writeln!(text, "constexpr Place COUNT = {};", sort.count);
    let _ = writeln!(text, "constexpr i32 SELECTED = {selected};");
    text += "struct Sort {\n";
    text += &parameters.fields(0);
    text += &method("i32", "number", "", "        return (i32)first;\n");
    let at = format!("        return (line / {inner} * extent + position) * {inner} + line % {inner};\n");
    text += &method("Place", "element", "Place line, Place position, Place extent", &at);
    let element = widened(sort.dtype, "in0[element(line, position, LENGTH)]");
    let flip = if sort.descending { "~" } else { "" };
    let body =
        format!("        const auto x = {element};\n        return {flip}({});\n", of_element(sort.dtype));
    text += &method("Key", "key_at", "Place line, Place position", &body);
    let body = "        out0[element(line, position, COUNT)] = place;\n";
    text += &method("void", "store_place", "Place line, Place position, u32 place", body);
    text + "};\n"
}

/// The key of the element `x`.
fn of_element(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool | DType::U8 | DType::U32 => "(u32)x",
        DType::I32 => "(u32)x ^ 0x80000000u",
        DType::F16 | DType::BF16 | DType::F32 => "(u32)rank_argmax(x) ^ 0x80000000u",
        DType::I64 => "(u64)x ^ 0x8000000000000000ull",
        DType::F64 => "(u64)rank_argmax(x) ^ 0x8000000000000000ull",
    }
}
