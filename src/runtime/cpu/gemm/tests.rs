//! Every kernel against a triple loop.

use std::fmt::Debug;
use std::sync::Mutex;

use super::*;

/// Elements that small integers, and something to stand out, can be made of.
trait Sample: GemmElement + PartialOrd + Debug {
    fn of(value: i64) -> Self;
    /// What surrounds matrices: spoils any sum that it gets into.
    fn poison() -> Self;
}

macro_rules! sample {
    ($($type:ty, $poison:expr);*) => {
        $(impl Sample for $type {
            fn of(value: i64) -> Self {
                value as $type
            }
            fn poison() -> Self {
                $poison
            }
        })*
    };
}

sample!(f32, f32::NAN; f64, f64::NAN; i32, 0x5a5a_5a5a; u32, 0x5a5a_5a5a; i64, 0x5a5a_5a5a_5a5a; u8, 0x5a);

impl Sample for SquaredDifference {
    fn of(value: i64) -> Self {
        SquaredDifference(value as f32)
    }
    fn poison() -> Self {
        SquaredDifference(f32::NAN)
    }
}

impl Sample for AbsoluteDifference {
    fn of(value: i64) -> Self {
        AbsoluteDifference(value as f32)
    }
    fn poison() -> Self {
        AbsoluteDifference(f32::NAN)
    }
}

impl Sample for Bf16x2 {
    fn of(value: i64) -> Bf16x2 {
        let [first, second] = [value, (5 * value + 1) % 7].map(|x| half::bf16::from_f32(x as f32));
        Bf16x2::new(first, second)
    }
    fn poison() -> Bf16x2 {
        Bf16x2::of_sum(f32::NAN)
    }
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    RowMajor,
    ColumnMajor,
    Padded,
    Spread,
    Reversed,
    RepeatedRow,
    RepeatedColumn,
}

const LAYOUTS: [Layout; 7] = [
    Layout::RowMajor,
    Layout::ColumnMajor,
    Layout::Padded,
    Layout::Spread,
    Layout::Reversed,
    Layout::RepeatedRow,
    Layout::RepeatedColumn,
];

/// Matrices in a buffer of poison.
struct Matrices<T> {
    data: Vec<T>,
    start: isize,
    strides: [isize; 2],
    batch: isize,
}

impl<T: Sample> Matrices<T> {
    fn new(layout: Layout, batches: usize, [rows, cols]: [usize; 2]) -> Self {
        let (r, c) = (rows.max(1) as isize, cols.max(1) as isize);
        let (strides, offset) = match layout {
            Layout::RowMajor => ([c, 1], 0),
            Layout::ColumnMajor => ([1, r], 0),
            Layout::Padded => ([c + 3, 1], 0),
            Layout::Spread => ([2 * c * 3, 3], 0),
            Layout::Reversed => ([-c, -1], r * c - 1),
            Layout::RepeatedRow => ([0, 1], 0),
            Layout::RepeatedColumn => ([1, 0], 0),
        };
        let batch = r * c * 6 + 5;
        let data = vec![T::poison(); batches.max(1) * batch as usize + 7];
        Matrices { data, start: 3 + offset, strides, batch }
    }

    /// Filled with small integers, the same ones each time.
    fn filled(layout: Layout, batches: usize, extents: [usize; 2], seed: i64) -> Self {
        let mut matrices = Self::new(layout, batches, extents);
        for b in 0..batches {
            for r in 0..extents[0] {
                for c in 0..extents[1] {
                    let value = (b as i64 * 5 + r as i64 * 7 + c as i64 * 3 + seed + (r * c) as i64) % 9 - 4;
                    let at = matrices.at(b, r, c);
                    matrices.data[at] = T::of(value);
                }
            }
        }
        matrices
    }

    fn at(&self, b: usize, r: usize, c: usize) -> usize {
        let offset = r as isize * self.strides[0] + c as isize * self.strides[1];
        (self.start + b as isize * self.batch + offset) as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Memory,
    Function(PackOrder),
}

#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    layouts: [Layout; 3],
    sources: [Source; 2],
    blocks: bool,
}

impl Case {
    fn new(m: usize, n: usize, k: usize) -> Case {
        let layouts = [Layout::RowMajor; 3];
        Case { batch: 1, m, n, k, layouts, sources: [Source::Memory; 2], blocks: false }
    }
}

/// A matrix's pointer, which closures of several threads may hold.
struct Shared<T>(*mut T);
// SAFETY: tests write disjoint elements.
unsafe impl<T> Sync for Shared<T> {}

/// Runs a case with a kernel and returns C.
fn compute<T: Sample>(case: Case, kernel: &MicroKernel<T>, a: &Matrices<T>, b: &Matrices<T>) -> Matrices<T> {
    let Case { batch, m, n, k, layouts, sources, blocks } = case;
    let mut c = Matrices::<T>::new(layouts[2], batch, [m, n]);
    let seen = Mutex::new(vec![0u8; batch * m * n]);
    let (start, strides, step) = (c.start, c.strides, c.batch);
    let to = Shared(c.data.as_mut_ptr().wrapping_offset(start));
    let to = &to;
    let emit = |block: OutputBlock<T>| {
        let mut seen = seen.lock().expect("no test panics while it holds this");
        for (i, r) in block.rows.clone().enumerate() {
            for (j, col) in block.cols.clone().enumerate() {
                seen[(block.batch * m + r) * n + col] += 1;
                let offset = r as isize * strides[0] + col as isize * strides[1];
                // SAFETY: inside C, once.
                unsafe {
                    *to.0.offset(block.batch as isize * step + offset) = *block.ptr.add(i * block.ld + j)
                };
            }
        }
    };
    let out = if blocks {
        GemmOutput::Blocks(&emit)
    } else {
        GemmOutput::Strided {
            ptr: to.0,
            row_stride: strides[0],
            col_stride: strides[1],
            batch: &|i| i as isize * step,
        }
    };
    let offsets = [a, b].map(|x| move |i: usize| i as isize * x.batch);
    let fills = [(a, sources[0]), (b, sources[1])]
        .map(|(x, source)| move |request: PackRequest<T>| fill(x, source, request));
    let operand = |i: usize| {
        let x = [a, b][i];
        match sources[i] {
            Source::Memory => GemmOperand::Strided {
                ptr: x.data.as_ptr().wrapping_offset(x.start),
                row_stride: x.strides[0],
                k_stride: x.strides[1],
                batch: &offsets[i],
            },
            Source::Function(order) => GemmOperand::Packed { order, fill: &fills[i], dots: None },
        }
    };
    let problem = GemmProblem { batch, m, n, k, a: operand(0), b: operand(1), out };
    // SAFETY: the matrices hold every index; kernels come from `kernels()`.
    unsafe { run_with(&problem, kernel) };
    let once = !blocks || seen.lock().expect("nothing panicked").iter().all(|&count| count == 1);
    assert!(once, "each element once: {case:?} {}", kernel.name);
    c
}

fn fill<T: Sample>(from: &Matrices<T>, source: Source, request: PackRequest<T>) {
    assert!(!request.rows.is_empty() && !request.k.is_empty());
    let lines = if source == Source::Function(PackOrder::RowContiguous) {
        request.rows.len()
    } else {
        request.k.len()
    };
    assert!(request.ld >= lines, "lines overlap");
    for (i, r) in request.rows.clone().enumerate() {
        for (j, k) in request.k.clone().enumerate() {
            let place = match source {
                Source::Function(PackOrder::RowContiguous) => j * request.ld + i,
                Source::Function(PackOrder::KContiguous) | Source::Memory => i * request.ld + j,
            };
            // SAFETY: inside the block asked for.
            unsafe { *request.to.add(place) = from.data[from.at(request.batch, r, k)] };
        }
    }
}

/// Checks a case with every kernel, and that C's surroundings stay as they were.
fn check<T: Sample>(case: Case) {
    let Case { batch, m, n, k, layouts, .. } = case;
    let a = Matrices::<T>::filled(layouts[0], batch, [m, k], 1);
    let b = Matrices::<T>::filled(layouts[1], batch, [n, k], 2);
    let expected = multiply(case, &a, &b);
    // Poison may be a NaN, which equals nothing.
    let poisoned = |x: T| x.partial_cmp(&x).is_none();
    for kernel in T::kernels() {
        let c = compute(case, kernel, &a, &b);
        for (i, (&x, &y)) in c.data.iter().zip(&expected.data).enumerate() {
            let same = x == y || poisoned(x) && poisoned(y);
            assert!(same, "{case:?} {} at {i}: {x:?}, expected {y:?}", kernel.name);
        }
    }
}

/// C by the definition.
fn multiply<T: Sample>(case: Case, a: &Matrices<T>, b: &Matrices<T>) -> Matrices<T> {
    let Case { batch, m, n, k, layouts, .. } = case;
    let mut c = Matrices::<T>::new(layouts[2], batch, [m, n]);
    for i in 0..batch {
        for r in 0..m {
            for col in 0..n {
                let product = |d| a.data[a.at(i, r, d)].multiply_add(b.data[b.at(i, col, d)], T::ZERO);
                let at = c.at(i, r, col);
                c.data[at] = (0..k).map(product).fold(T::ZERO, |sum, x| sum.plus(x));
            }
        }
    }
    c
}

fn check_all<T: Sample>(cases: &[Case]) {
    cases.iter().for_each(|&case| check::<T>(case));
}

const SIZES: [usize; 14] = [0, 1, 2, 7, 8, 9, 15, 17, 31, 47, 48, 49, 64, 129];

/// Shapes of which every pair of sizes occurs somewhere.
fn shapes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (i, &m) in SIZES.iter().enumerate() {
        for (j, &n) in SIZES.iter().enumerate() {
            cases.push(Case::new(m, n, SIZES[(3 * i + 5 * j) % SIZES.len()]));
        }
    }
    cases
}

#[test]
fn odd_shapes() {
    check_all::<f32>(&shapes());
    check_all::<f64>(&shapes());
    check_all::<Bf16x2>(&shapes());
    check_all::<SquaredDifference>(&shapes());
    check_all::<AbsoluteDifference>(&shapes());
    check_all::<i32>(&shapes());
    check_all::<u32>(&shapes());
    check_all::<i64>(&shapes());
    check_all::<u8>(&shapes());
}

#[test]
fn strides() {
    let mut cases = Vec::new();
    for (i, a) in LAYOUTS.into_iter().enumerate() {
        for (j, b) in LAYOUTS.into_iter().enumerate() {
            for (o, c) in LAYOUTS[..5].iter().enumerate() {
                let [m, n, k] =
                    [[7, 49, 33], [50, 17, 300], [1, 70, 40], [70, 1, 40], [13, 100, 9]][(i + j + o) % 5];
                cases.push(Case { batch: 2, layouts: [a, b, *c], ..Case::new(m, n, k) });
            }
        }
    }
    check_all::<f32>(&cases);
    check_all::<f64>(&cases);
    check_all::<Bf16x2>(&cases);
    check_all::<SquaredDifference>(&cases);
    check_all::<AbsoluteDifference>(&cases);
    check_all::<i32>(&cases);
}

#[test]
fn functions_for_operands_and_output() {
    let sources = [
        Source::Memory,
        Source::Function(PackOrder::RowContiguous),
        Source::Function(PackOrder::KContiguous),
    ];
    let mut cases = Vec::new();
    for a in sources {
        for b in sources {
            for blocks in [false, true] {
                for [m, n, k] in [
                    [1, 60, 20],
                    [60, 1, 20],
                    [33, 65, 0],
                    [40, 50, 70],
                    [20, 530, 270],
                    [270, 60, 100],
                    [3, 5, 5000],
                ] {
                    let layouts = [Layout::RowMajor, Layout::ColumnMajor, Layout::RowMajor];
                    cases.push(Case { sources: [a, b], blocks, layouts, ..Case::new(m, n, k) });
                }
                let case = Case { batch: 9, sources: [a, b], blocks, ..Case::new(20, 30, 40) };
                cases.push(case);
            }
        }
    }
    check_all::<f32>(&cases);
    check_all::<Bf16x2>(&cases);
    check_all::<SquaredDifference>(&cases);
    check_all::<AbsoluteDifference>(&cases);
    check_all::<i64>(&cases);
}

#[test]
fn large() {
    let mut cases = vec![Case::new(260, 490, 270), Case::new(16, 500, 500), Case::new(500, 16, 300)];
    cases.extend([
        Case::new(4, 4, 9000),
        Case::new(1, 1, 70_000),
        Case::new(1, 3000, 300),
        Case::new(260, 50, 600),
    ]);
    cases.extend(cases.clone().into_iter().map(|case| Case {
        layouts: [Layout::ColumnMajor, Layout::ColumnMajor, Layout::ColumnMajor],
        ..case
    }));
    cases.push(Case { batch: 16, ..Case::new(140, 64, 70) });
    check_all::<f32>(&cases);
    check_all::<f64>(&cases[..3]);
    check_all::<Bf16x2>(&cases);
    check_all::<SquaredDifference>(&cases);
    check_all::<AbsoluteDifference>(&cases);
}

/// Values whose sums round, from a generator of Marsaglia's xorshift kind.
fn noise(count: usize, mut state: u64) -> Vec<f32> {
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    })
    .take(count)
    .collect()
}

fn product(m: usize, n: usize, k: usize, kernel: &MicroKernel<f32>) -> Vec<f32> {
    let (a, b) = (noise(m * k, 0x9e37), noise(n * k, 0x79b9));
    let mut c = vec![f32::NAN; m * n];
    let strided = |data: &[f32]| GemmOperand::Strided {
        ptr: data.as_ptr(),
        row_stride: k as isize,
        k_stride: 1,
        batch: &|_| 0,
    };
    let out =
        GemmOutput::Strided { ptr: c.as_mut_ptr(), row_stride: n as isize, col_stride: 1, batch: &|_| 0 };
    let problem = GemmProblem { batch: 1, m, n, k, a: strided(&a), b: strided(&b), out };
    // SAFETY: the vectors hold every index; kernels come from `kernels()`.
    unsafe { run_with(&problem, kernel) };
    c
}

#[test]
fn rounding_is_small() {
    let (m, n, k) = (37, 65, 1500);
    let (a, b) = (noise(m * k, 0x9e37), noise(n * k, 0x79b9));
    for kernel in f32::kernels() {
        let c = product(m, n, k, kernel);
        for r in 0..m {
            for j in 0..n {
                let terms = (0..k).map(|d| f64::from(a[r * k + d]) * f64::from(b[j * k + d]));
                let exact: f64 = terms.sum();
                assert!((f64::from(c[r * n + j]) - exact).abs() < 1e-4, "{} at {r}, {j}", kernel.name);
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let pools = [1, 2, 3].map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build());
    for [m, n, k] in
        [[257, 300, 513], [1, 3000, 700], [900, 1, 700], [5, 9, 20_000], [16, 2000, 400], [600, 48, 64]]
    {
        for kernel in f32::kernels() {
            let results = pools.each_ref().map(|pool| {
                let pool = pool.as_ref().expect("threads can be started");
                let c = pool.install(|| product(m, n, k, kernel));
                c.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            });
            assert!(results[0] == results[1] && results[0] == results[2], "{m} {n} {k} {}", kernel.name);
        }
    }
}

#[test]
fn non_finite_values_propagate() {
    for kernel in f32::kernels() {
        for [m, n, k] in [[3, 50, 20], [1, 50, 20], [50, 1, 20], [64, 64, 300]] {
            let case = Case::new(m, n, k);
            let mut a = Matrices::<f32>::filled(Layout::RowMajor, 1, [m, k], 1);
            let b = Matrices::<f32>::filled(Layout::RowMajor, 1, [n, k], 2);
            let at = a.at(0, m - 1, k - 1);
            a.data[at] = f32::INFINITY;
            let c = compute(case, kernel, &a, &b);
            for j in 0..n {
                let factor = b.data[b.at(0, j, k - 1)];
                let value = c.data[c.at(0, m - 1, j)];
                let expected = f32::INFINITY * factor;
                assert!(value == expected || value.is_nan() && expected.is_nan(), "{factor}: {value}");
                assert!(m == 1 || c.data[c.at(0, 0, j)].is_finite());
            }
        }
    }
}

#[test]
fn transposing_kernels() {
    fn transposes<T: Sample>() {
        for kernel in T::kernels() {
            let n = kernel.lanes;
            let from: Vec<T> = (0..n * (n + 1)).map(|i| T::of(i as i64)).collect();
            let mut to = vec![T::ZERO; n * (n + 2)];
            // SAFETY: both hold n lines.
            unsafe { (kernel.transpose)(from.as_ptr(), n as isize + 1, to.as_mut_ptr(), n as isize + 2) };
            for i in 0..n {
                for j in 0..n {
                    assert_eq!(to[j * (n + 2) + i], from[i * (n + 1) + j], "{}", kernel.name);
                }
            }
        }
    }
    transposes::<f32>();
    transposes::<f64>();
    transposes::<Bf16x2>();
    transposes::<u8>();
}
