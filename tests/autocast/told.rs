//! What is told of casts: by plans, and by running both ways.

use kiln::nn::{Layer, LayerNorm, Linear, ModuleExt, Sequential};
use kiln::optim::GradScaler;
use kiln::prelude::*;
use kiln::tensor::autocast::policy::Policy;
use kiln::{Context, compare_precision, grad, plan, with_autocast, with_context};

use crate::adapter;

/// A parameter that is used twice, and again by the gradients, is cast by one kernel.
#[test]
fn a_parameter_is_cast_once_a_step() {
    for device in [Some(Device::cpu()), adapter::adapter()].into_iter().flatten() {
        with_context(&Context::new(), || {
            let (x, w) =
                (Tensor::rand([64, 32], device), Tensor::rand([32, 32], device).with_requires_grad());
            kiln::tensor::read::realize(&[&x, &w]).unwrap();
            let loss = with_autocast(DType::BF16, || {
                x.matmul(&w).gelu().matmul(&w).gelu().matmul(&w).to_dtype(DType::F32).square().sum(..)
            });
            let gradient = grad(&loss, &[&w]).remove(0);
            let told = plan(&[&loss, &gradient]).unwrap().precision();
            let of_w = |cast: &&kiln::tensor::autocast::report::CastReport| {
                cast.shape[..] == [32, 32] && cast.to == DType::BF16
            };
            let casts: Vec<_> = told.casts.iter().filter(of_w).collect();
            assert_eq!(casts.len(), 1, "{told}");
            assert_eq!((casts[0].written, casts[0].kernels.len()), (3, 1), "{device}\n{told}");
        });
    }
}

#[test]
fn plans_tell_the_rule_of_each_cast() {
    let x = Tensor::empty([64, 64], Device::meta());
    let y = with_autocast(DType::F16, || x.matmul(&x).softmax(-1));
    let told = y.plan().unwrap().precision();
    let rules: Vec<_> = told.casts.iter().map(|cast| (cast.operation, cast.rule, cast.to)).collect();
    let expected =
        [("matmul", Some(Policy::Lower), DType::F16), ("softmax", Some(Policy::Float32), DType::F32)];
    assert_eq!(rules, expected);
    assert!(told.to_string().contains("told.rs"), "{told}");
}

/// Casts in the body of a loop are told as others are: each once, by its rule and its kernels.
#[test]
fn plans_tell_the_casts_in_loops() {
    let place = Device::meta();
    let (xs, w) = (Tensor::empty([5, 4, 8], place), Tensor::empty([8, 8], place));
    let start = Tensor::zeros([4, 8], place);
    let (last, _) = with_autocast(DType::BF16, || {
        kiln::scan(&[start], &[xs], |carries, slices| {
            (vec![(&carries[0] + &slices[0]).matmul(&w).to_dtype(DType::F32)], Vec::new())
        })
    });
    let told = last[0].plan().unwrap().precision();
    let products: Vec<_> = told.casts.iter().filter(|cast| cast.rule == Some(Policy::Lower)).collect();
    let shapes: Vec<_> = products.iter().map(|cast| cast.shape.to_vec()).collect();
    assert!(shapes.contains(&vec![4, 8]) && shapes.contains(&vec![8, 8]), "{told}");
    assert!(products.iter().all(|cast| !cast.kernels.is_empty()), "{told}");
    assert!(told.to_string().contains("told.rs"), "{told}");
}

/// What attention casts within is told, whether its body computes it, as here on the meta device, or a template.
#[test]
fn plans_tell_the_casts_in_composites() {
    let here = Tensor::rand([2, 64, 32], DType::BF16);
    here.realize().unwrap();
    for q in [Tensor::empty([2, 64, 32], (Device::meta(), DType::BF16)), here] {
        let told = q.scaled_dot_product_attention(&q, &q, Default::default()).plan().unwrap().precision();
        let widened = told.casts.iter().find(|cast| cast.to == DType::F32 && cast.shape[..] == [2, 64, 32]);
        let widened = widened.unwrap_or_else(|| panic!("{told}"));
        assert_eq!((widened.operation, widened.from), ("attention", DType::BF16));
        assert!(!widened.kernels.is_empty() && widened.stored == 0, "{told}");
    }
}

/// A cast that only its reader needs vanishes there; one that is asked for is stored.
#[test]
fn plans_tell_which_casts_vanish() {
    let x = Tensor::empty([64], Device::meta());
    let told = (x.half() + 1.0).plan().unwrap().precision();
    assert_eq!((told.casts[0].kernels.len(), told.casts[0].stored), (1, 0), "{told}");
    assert!(told.to_string().contains("vanishes in "), "{told}");
    let told = x.half().plan().unwrap().precision();
    assert_eq!((told.casts[0].kernels.len(), told.casts[0].stored), (1, 1), "{told}");
}

#[test]
fn an_overflow_is_found_at_its_layer() {
    kiln::manual_seed(3);
    let model = Sequential::new()
        .push(Linear::new(16, 32, ()))
        .then(|x| x.relu() * 1e3)
        .push(Linear::new(32, 32, ()))
        .then(|x| x * 3e3)
        .push(LayerNorm::new([32], ()))
        .push(Linear::new(32, 4, ()));
    let x = Tensor::rand([8, 16], ());
    let found = compare_precision(DType::F16, || model.forward(&x)).unwrap();
    let jump = &found.layers[found.first_jump.expect("a jump")];
    assert!(jump.name == "mul" && jump.overflows > 0, "{found}");
    assert!(found.layers.iter().take_while(|layer| !std::ptr::eq(*layer, jump)).all(|l| l.overflows == 0));
    // BF16 has the range, and fewer digits.
    let wide = compare_precision(DType::BF16, || model.forward(&x)).unwrap();
    assert!(wide.layers.iter().all(|layer| layer.overflows == 0) && wide.first_jump.is_none(), "{wide}");
}

/// Gradients too small for F16 are 0 without a scale, and survive with one.
#[test]
fn a_gradient_that_underflows_survives_with_a_scale() {
    kiln::manual_seed(4);
    let model = Linear::new(8, 8, ());
    let x = Tensor::rand([4, 8], ());
    let weight = model.parameters()[0].get();
    let loss = || model.forward(&x).to_dtype(DType::F32).mean(..) * 1e-7;
    let underflows = |loss: &dyn Fn() -> Tensor| {
        let found = compare_precision(DType::F16, || grad(&loss(), &[&weight]).remove(0)).unwrap();
        found.layers.iter().map(|layer| layer.underflows).sum::<usize>()
    };
    assert!(underflows(&loss) > 0);
    let scaler = std::cell::RefCell::new(GradScaler::new(()));
    assert_eq!(underflows(&|| scaler.borrow_mut().scale(&loss())), 0);
}

#[test]
fn graphs_that_differ_are_refused() {
    let x = Tensor::rand([2, 2], ());
    let differs = || if x.matmul(&x).dtype() == DType::F32 { x.sin() } else { x.exp().sin() };
    let error = compare_precision(DType::BF16, differs).unwrap_err().to_string();
    assert!(error.contains("the same calls both ways") && error.contains("told.rs"), "{error}");
}
