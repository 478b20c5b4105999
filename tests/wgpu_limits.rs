//! What goes beyond one loop, one binding, one dispatch or one shader's
//! buffers of an adapter, at real size: Mesa's software driver stops an
//! invocation silently after 65,535 iterations, binds 128 MiB and 32 buffers,
//! and launches 65,535 workgroups along a dimension.

#[path = "support/adapter.rs"]
mod adapter;

use adapter::adapter;
use kiln::Result;
use kiln::prelude::*;

const DEVICE: Device = Device::wgpu(0);

/// Small whole numbers, in memory.
fn numbers(count: usize) -> (Vec<f32>, Tensor) {
    let values: Vec<f32> = (0..count).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
    let x = Tensor::from_vec(values.clone(), [count], DEVICE);
    x.realize().expect("memory on the adapter");
    (values, x)
}

#[test]
fn reductions_of_sixteen_million_elements() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    let (values, x) = numbers((1 << 24) + 3);
    let whole: f64 = values.iter().map(|&v| f64::from(v)).sum();
    let found = (&x + 1.0).sum(..).item::<f64>()?;
    let expected = whole + values.len() as f64;
    assert!((found - expected).abs() <= 1e-5 * expected, "{found} instead of {expected}");
    // The first of the many smallest.
    let smallest = values.iter().position(|&v| v == -50.0);
    assert_eq!(x.argmin(..).item::<i64>()?, smallest.expect("it is there") as i64);
    let exponentials: f64 = values.iter().map(|&v| f64::from(v).exp()).sum();
    let found = x.logsumexp(0).item::<f64>()?;
    assert!((found - exponentials.ln()).abs() < 1e-4, "{found} instead of {}", exponentials.ln());
    let mean = whole / values.len() as f64;
    let squares: f64 = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum();
    let (found, expected) = (x.var(..).item::<f64>()?, squares / (values.len() - 1) as f64);
    assert!((found - expected).abs() < 1e-4 * expected, "{found} instead of {expected}");
    Ok(())
}

#[test]
fn reductions_repeat_bitwise() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    let x = Tensor::rand([1 << 20], DEVICE);
    x.realize()?;
    let sum = || x.sum(..).item::<f32>().map(f32::to_bits);
    let first = sum()?;
    for _ in 0..5 {
        assert_eq!(sum()?, first);
    }
    Ok(())
}

/// So many rows that nothing is gained by cutting them, but for the limit.
#[test]
fn many_rows_longer_than_one_invocation_may_loop() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    const ROWS: i64 = 1200;
    const LENGTH: i64 = 70_001;
    let line = |n: i64| Tensor::arange(0, n, 1, DEVICE);
    let x = line(ROWS).unsqueeze(1) + line(LENGTH);
    let most = x.max(1);
    let gaps = (&x - most.unsqueeze(1)).sum(1);
    kiln::realize(&[&most, &gaps])?;
    assert_eq!(most.to_vec::<i64>()?, (0..ROWS).map(|row| row + LENGTH - 1).collect::<Vec<_>>());
    assert_eq!(gaps.to_vec::<i64>()?, vec![-LENGTH * (LENGTH - 1) / 2; ROWS as usize]);
    Ok(())
}

#[test]
fn scans_longer_than_one_invocation_may_loop() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    let (values, x) = numbers(600_000);
    let sums = (x.reshape([2, 300_000]).cumsum(1) * 2.0).to_vec::<f32>()?;
    for (row, found) in values.chunks(300_000).zip(sums.chunks(300_000)) {
        let mut sum = 0.0;
        let wrong = row.iter().zip(found).position(|(value, found)| {
            sum += value;
            2.0 * sum != *found
        });
        assert_eq!(wrong, None);
    }
    let most = x.cummax(0).0.to_vec::<f32>()?;
    assert!(most[100..].iter().all(|&v| v == 50.0));
    Ok(())
}

#[test]
fn contractions_over_more_than_one_invocation_may_loop() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    const K: usize = 1 << 20;
    let (values, x) = numbers(2 * K + 6);
    let (a, b) = (x.i(0..2 * K as i32).reshape([2, K]), x.i(6..).reshape([K, 2]));
    let found = (a.matmul(&b) + 1.0).to_vec::<f32>()?;
    for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let product = |k: usize| f64::from(values[i * K + k]) * f64::from(values[6 + 2 * k + j]);
        let size: f64 = (0..K).map(|k| product(k).abs()).sum();
        let expected = (0..K).map(product).sum::<f64>() + 1.0;
        let found = f64::from(found[2 * i + j]);
        assert!((found - expected).abs() < 1e-5 * size, "{found} instead of {expected}");
    }
    Ok(())
}

/// So many results that nothing is gained by cutting their sums, but for the limit.
#[test]
fn large_products_over_more_than_one_invocation_may_loop() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    const K: usize = 300_000;
    let (values, x) = numbers(32 * K + 5);
    let (a, b) = (x.i(0..32 * K as i32).reshape([32, K]), x.i(5..).reshape([32, K]));
    let found = a.matmul(&b.t()).to_vec::<f32>()?;
    for (i, j) in [(0, 0), (3, 31), (31, 17)] {
        let product = |k: usize| f64::from(values[i * K + k]) * f64::from(values[5 + j * K + k]);
        let size: f64 = (0..K).map(|k| product(k).abs()).sum();
        let expected: f64 = (0..K).map(product).sum();
        let found = f64::from(found[32 * i + j]);
        assert!((found - expected).abs() < 1e-5 * size, "{found} instead of {expected}");
    }
    Ok(())
}

#[test]
fn loops_inside_operations_count_too() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    // Each remainder takes about a hundred iterations of its own.
    for rows in [2, 40] {
        let x = Tensor::from_vec(vec![1e30f32; 20_000 * rows], [rows, 20_000], DEVICE);
        let sums = x.fmod(0.75).sum(1).to_vec::<f32>()?;
        let each = 1e30f32 % 0.75;
        assert_eq!(sums, vec![each * 20_000.0; rows]);
    }
    Ok(())
}

#[test]
fn tensors_beyond_one_binding_and_launches_beyond_one_dimension() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    // 160 MB; 156,250 workgroups of 64 invocations for four elements.
    const N: usize = 40_000_000;
    let x = Tensor::arange(0, N as i32, 1, (DEVICE, DType::I32));
    x.realize()?;
    let y = &x * 2 + 1;
    y.realize()?;
    for at in [0, 1, 33_554_431, 33_554_432, 33_554_433, N as i32 - 1] {
        assert_eq!(y.i(at).item::<i32>()?, 2 * at + 1, "element {at}");
    }
    // Backwards, element by element: 625,000 workgroups.
    let z = y.flip(0);
    z.realize()?;
    for at in [0, 6_445_567, 6_445_568, N as i32 - 1] {
        assert_eq!(z.i(at).item::<i32>()?, 2 * (N as i32 - 1 - at) + 1, "element {at} from the end");
    }
    assert_eq!(y.max(..).item::<i32>()?, 2 * N as i32 - 1);
    Ok(())
}

#[test]
fn more_inputs_than_one_shader_binds() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    let parts: Vec<Tensor> = (0..80).map(|i| Tensor::from_vec(vec![i as f32, 1.0], [2], DEVICE)).collect();
    let sum = parts[1..].iter().fold(parts[0].clone(), |sum, x| sum + x);
    assert_eq!(sum.to_vec::<f32>()?, [3160.0, 80.0]);
    let joined = Tensor::cat(&parts, 0);
    assert_eq!(joined.sum(..).item::<f32>()?, 3240.0);
    Ok(())
}

/// Mesa's compiler takes two comparisons of a widened position for something else.
#[test]
fn a_place_shifts_and_divides_by_itself() {
    let Some(device) = adapter() else { return };
    let x = Tensor::linspace(0.0, 1.0, 6, device);
    let place = x.argmax(0);
    let (shifted, divided) = (place.bitwise_left_shift(&place), (&place * 7).floor_divide(&place));
    kiln::realize(&[&shifted, &divided]).expect("two numbers");
    assert_eq!((shifted.item::<i64>().unwrap(), divided.item::<i64>().unwrap()), (160, 7));
}
