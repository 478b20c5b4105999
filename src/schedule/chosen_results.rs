//! User kernels of whose results some are not read, or not in order.

use std::sync::Arc;

use crate::ir::{Custom, Type};

/// A kernel that gives some results of another.
#[derive(Debug)]
struct ChosenResults {
    custom: Arc<dyn Custom>,
    /// The types of all results.
    all: Vec<Type>,
    /// Which of them it gives, in this order.
    chosen: Vec<usize>,
}

/// `custom` as a kernel of the results that are wanted, by their numbers; itself where those are all.
pub(super) fn chosen_results(
    custom: &Arc<dyn Custom>,
    operands: &[&Type],
    chosen: Vec<usize>,
) -> Arc<dyn Custom> {
    // Operands that do not fit were refused when the node was built.
    let Ok(all) = custom.infer(operands) else { return custom.clone() };
    if chosen.iter().copied().eq(0..all.len()) {
        return custom.clone();
    }
    Arc::new(ChosenResults { custom: custom.clone(), all, chosen })
}

impl Custom for ChosenResults {
    fn name(&self) -> &str {
        self.custom.name()
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>, String> {
        let all = self.custom.infer(operands)?;
        Ok(self.chosen.iter().map(|&number| all[number].clone()).collect())
    }

    fn run_cpu(&self, operands: &[&[u8]], results: &mut [&mut [u8]]) -> Result<(), String> {
        // In words, which align every type.
        let unread = |(number, ty): (usize, &Type)| {
            let words = if self.chosen.contains(&number) { 0 } else { ty.bytes().div_ceil(8) };
            vec![0u64; words]
        };
        let mut unread: Vec<Vec<u64>> = self.all.iter().enumerate().map(unread).collect();
        let mut all: Vec<&mut [u8]> = unread
            .iter_mut()
            .zip(&self.all)
            .map(|(words, ty)| {
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
                let length = bytes.len().min(ty.bytes());
                &mut bytes[..length]
            })
            .collect();
        for (result, &number) in results.iter_mut().zip(&self.chosen) {
            all[number] = &mut result[..];
        }
        self.custom.run_cpu(operands, &mut all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::DType;
    use crate::custom;
    use crate::tensor::testing::{assert_close, tensor};

    /// Twice and three times a number.
    #[derive(Debug)]
    struct Multiples;

    impl Custom for Multiples {
        fn name(&self) -> &str {
            "multiples"
        }
        fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>, String> {
            Ok(vec![operands[0].clone(), operands[0].clone()])
        }
        fn run_cpu(&self, operands: &[&[u8]], results: &mut [&mut [u8]]) -> Result<(), String> {
            for (factor, result) in (2..).zip(results.iter_mut()) {
                result.iter_mut().zip(operands[0]).for_each(|(y, x)| *y = factor * x);
            }
            Ok(())
        }
    }

    #[test]
    fn results_of_a_custom_kernel_are_read_alone_and_in_any_order() {
        let multiples = || custom(Arc::new(Multiples), &[tensor(&[1], DType::U8, &[5.0])]);
        assert_close(&multiples()[1], &[1], &[15.0]);
        assert_close(&multiples()[0], &[1], &[10.0]);
        let both = multiples();
        crate::realize(&[&both[1], &both[0]]).unwrap();
        assert_close(&both[0], &[1], &[10.0]);
        assert_close(&both[1], &[1], &[15.0]);
    }
}
