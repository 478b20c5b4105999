//! Windows against what each element is by its address and its conditions alone.

use proptest::prelude::*;

use super::*;

/// An extent, and steps of the address and of two conditions' values.
fn axis(most: usize) -> impl Strategy<Value = CopyAxis> {
    // Most conditions are about few axes, as padding's are.
    let step = || prop_oneof![3 => Just(0i64), 2 => -1i64..=2];
    (1..=most, -20i64..=20, prop::collection::vec(step(), 2)).prop_map(|(extent, address, steps)| {
        // An address of 1 or 2 apart has loops of its own.
        let address = if address.abs() > 10 { address.signum() * (address.abs() % 2 + 1) } else { address };
        CopyAxis { extent, step: AffineValues { address, conditions: steps.into() } }
    })
}

fn window() -> impl Strategy<Value = Window> {
    let axes = |most| prop::collection::vec(axis(most), 0..4);
    let condition =
        (-2i64..2, -3i64..2, 1i64..7).prop_map(|(start, low, len)| Condition { start, low, high: low + len });
    // Without any, a window of few axes is a matrix.
    let conditions = prop_oneof![3 => prop::collection::vec(condition, 2), 1 => Just(Vec::new())];
    (axes(2), axes(3), axes(6), conditions).prop_map(|(batch, lines, along, conditions)| {
        let copy = RowCopy::of(DType::I32, along.last());
        let conditions = conditions.into();
        Window { input: 0, dtype: DType::I32, batch, lines, along, start: 1000, conditions, copy }
    })
}

fn size(axes: &[CopyAxis]) -> usize {
    axes.iter().map(|axis| axis.extent).product()
}

/// The element at a position, from its address and its conditions alone.
fn element(window: &Window, memory: &[i32], [batch, line, along]: [usize; 3]) -> i32 {
    let conditions = window.conditions.iter().map(|condition| condition.start).collect();
    let start = AffineValues { address: window.start, conditions };
    let values = values_at(
        &window.along,
        along,
        &values_at(&window.lines, line, &values_at(&window.batch, batch, &start)),
    );
    let holds = |(condition, value): (&Condition, &i64)| (condition.low..condition.high).contains(value);
    let inside = window.conditions.iter().zip(&values.conditions).all(holds);
    if inside { memory[values.address as usize] } else { 0 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn blocks_hold_what_each_element_is(window in window(), ends in prop::array::uniform4(0.0..1.0)) {
        let memory: Vec<i32> = (1..=2000).collect();
        let range = |axes: &[CopyAxis], a: f64, b: f64| {
            let [a, b] = [a, b].map(|x| (x * size(axes) as f64) as usize);
            a.min(b)..a.max(b) + 1
        };
        let lines = range(&window.lines, ends[0], ends[1]);
        let along = range(&window.along, ends[2], ends[3]);
        let batch = size(&window.batch) - 1;
        let mut block = vec![-1; lines.len() * along.len()];
        let input = MemoryView { start: memory.as_ptr().cast_mut().cast(), bytes: 4 * memory.len() };
        let to = StridedBlock { start: block.as_mut_ptr().cast(), row_stride: along.len(), lane: 4 };
        // SAFETY: no step leads out of the memory; the block has as many elements.
        unsafe { window.write(input, batch, lines.clone(), along.clone(), to) };
        let mut expected = Vec::new();
        for line in lines {
            expected.extend(along.clone().map(|along| element(&window, &memory, [batch, line, along])));
        }
        prop_assert_eq!(block, expected);
    }
}
