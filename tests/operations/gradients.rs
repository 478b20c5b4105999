//! Gradients against central differences, and what PyTorch users expect of
//! `grad`, `backward` and `no_grad`.

use kiln::opts::SolveTriangularOpts;
use kiln::prelude::*;
use kiln::{GradOpts, custom_grad, fori_loop, grad, grad_with, no_grad, scan};

type Function<'a> = &'a dyn Fn(&[Tensor]) -> Tensor;

fn f64s(shape: &[usize], values: Vec<f64>) -> Tensor {
    Tensor::from_vec(values, shape, ())
}

/// Values without ties, zeros or kinks, in both signs.
fn smooth(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |i: usize| ((i * 7 + seed * 13) % 23) as f64 / 9.0 - 1.27 + 0.01 * i as f64;
    f64s(shape, (0..count).map(value).collect())
}

fn positive(shape: &[usize], seed: usize) -> Tensor {
    let values = smooth(shape, seed).to_vec::<f64>().unwrap();
    f64s(shape, values.into_iter().map(|v| v.abs() + 0.3).collect())
}

/// A number that depends on every element of `f`'s result in its own way.
fn weighed(f: Function, inputs: &[Tensor]) -> Tensor {
    let y = f(inputs);
    let weights = smooth(&y.shape(), 5);
    (&y * &weights).sum(..)
}

fn number(x: &Tensor) -> f64 {
    x.item::<f64>().unwrap()
}

/// Central differences with respect to every element of input `which`.
fn differences(f: Function, inputs: &[Tensor], which: usize) -> Vec<f64> {
    let at = inputs[which].to_vec::<f64>().unwrap();
    let step = 1e-5;
    let moved = |i: usize, by: f64| {
        let mut values = at.clone();
        values[i] += by;
        let mut inputs = inputs.to_vec();
        inputs[which] = f64s(&inputs[which].shape(), values);
        number(&weighed(f, &inputs))
    };
    (0..at.len()).map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step)).collect()
}

fn assert_close(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let bound = 1e-6 * (1.0 + expected.abs());
        assert!((found - expected).abs() <= bound, "{what}: element {i} is {found}, expected {expected}");
    }
}

/// First derivatives by every input, and second ones of a scalar made from
/// them.
#[track_caller]
fn check(name: &str, inputs: &[Tensor], f: Function) {
    let inputs: Vec<Tensor> = inputs.iter().map(|x| x.detach().with_requires_grad()).collect();
    let refs: Vec<&Tensor> = inputs.iter().collect();
    let opts = GradOpts::default().allow_unused(true);
    let found = grad_with(&weighed(f, &inputs), &refs, opts.clone());
    for (which, gradient) in found.iter().enumerate() {
        let what = format!("{name}, input {which}");
        assert_close(&what, &gradient.to_vec::<f64>().unwrap(), &differences(f, &inputs, which));
    }
    let slopes = |inputs: &[Tensor]| {
        let inputs: Vec<Tensor> = inputs.iter().map(|x| x.clone().with_requires_grad()).collect();
        let refs: Vec<&Tensor> = inputs.iter().collect();
        let slopes = grad_with(&weighed(f, &inputs), &refs, GradOpts::default().allow_unused(true));
        slopes.iter().map(|slope| slope.square().sum(..)).reduce(|a, b| a + b).unwrap()
    };
    let curved = slopes(&inputs);
    if !curved.is_tracked() {
        return;
    }
    for (which, gradient) in grad_with(&curved, &refs, opts.clone()).iter().enumerate() {
        let what = format!("{name}, second derivative, input {which}");
        let expected = differences(&slopes, &inputs, which);
        let weight = smooth(&[], 5).to_vec::<f64>().unwrap()[0];
        let scaled: Vec<f64> = gradient.to_vec::<f64>().unwrap().iter().map(|v| v * weight).collect();
        for (i, (found, expected)) in scaled.iter().zip(expected).enumerate() {
            let bound = 1e-4 * (1.0 + expected.abs());
            assert!((found - expected).abs() <= bound, "{what}: element {i} is {found}, expected {expected}");
        }
    }
}

#[test]
fn what_is_kept_or_spread() {
    let x = [smooth(&[3, 4], 1)];
    check("broadcast", &[smooth(&[3], 1), smooth(&[2, 1], 2), smooth(&[], 3)], &|x| {
        &x[0] * &x[1] + &x[2] * 2.0
    });
    check("checkpoint", &x, &|x| kiln::checkpoint(|x| x.sin().cumsum(1), &x[0]));
}

/// Well-conditioned matrices, and what is solved with them.
fn systems(n: usize, k: usize) -> [Tensor; 2] {
    let ridge = Tensor::eye(n, n, ()).to_dtype(DType::F64) * (n as f64);
    [smooth(&[2, n, n], 1).sin() + ridge, smooth(&[2, n, k], 2).sin()]
}

#[test]
fn systems_factors_and_determinants() {
    let both = systems(3, 2);
    let one = &both[..1];
    check("solve", &both, &|x| x[0].solve(&x[1]));
    check("inv", one, &|x| x[0].inv());
    check("det", one, &|x| x[0].det());
    check("slogdet", one, &|x| x[0].slogdet().1);
    for (upper, left, unit) in [(false, true, false), (true, true, true), (true, false, false)] {
        let opts = || SolveTriangularOpts::default().upper(upper).left(left).unitriangular(unit);
        let right = |x: &Tensor| if left { x.clone() } else { x.transpose(1, 2) };
        check("solve_triangular", &both, &|x| x[0].solve_triangular(&right(&x[1]), opts()));
    }
    // Differences in one element leave no symmetric matrix, but its factor is that of one.
    let symmetric = |x: &Tensor| x.matmul(&x.transpose(1, 2));
    check("cholesky", one, &|x| symmetric(&x[0]).cholesky(false));
    check("cholesky, upper", one, &|x| symmetric(&x[0]).cholesky(true));
    // Of several blocks, the last of which is not whole; one number for each matrix decides.
    let [a, b] = systems(37, 1);
    let few = [positive(&[2, 1, 1], 3)];
    let solved = |x: &[Tensor]| (&a + &x[0]).solve(&(&b * &x[0])).sum(1);
    check("solve of 37", &few, &solved);
    check("slogdet of 37", &few, &|x| (&a * &x[0]).slogdet().1);
    check("factor of 37", &few, &|x| symmetric(&(&a * &x[0])).cholesky(false).sum([1, 2]));
    let opts = || SolveTriangularOpts::default().upper(true);
    check("triangle of 37", &few, &|x| (&a * &x[0]).solve_triangular(&b, opts()).sum(1));
}

#[test]
fn convolutions() {
    let opts = ConvOpts::default;
    let conv: [(&str, &[usize], &[usize], ConvOpts); 9] = [
        ("windows side by side", &[2, 2, 4, 3], &[3, 2, 3, 2], opts()),
        ("more padding than a window", &[1, 2, 3, 2], &[2, 2, 1, 2], opts().padding([1, 2])),
        ("far apart", &[1, 2, 6, 5], &[2, 2, 2, 2], opts().dilation([3, 2]).padding(1)),
        ("groups", &[1, 4, 3, 3], &[6, 2, 2, 3], opts().groups(2).padding(1)),
        ("stride 2", &[1, 2, 4, 4], &[2, 2, 3, 3], opts().padding(1).stride(2)),
        ("a stride that leaves some", &[1, 1, 6, 5], &[2, 1, 2, 2], opts().padding([0, 1]).stride([3, 2])),
        ("a stride over a window", &[1, 2, 7, 3], &[1, 2, 2, 1], opts().stride([4, 2])),
        ("stride and groups", &[1, 4, 5, 4], &[4, 2, 3, 2], opts().groups(2).padding([2, 1]).stride([2, 3])),
        ("stride and far apart", &[1, 1, 6, 6], &[1, 1, 2, 3], opts().dilation(2).padding(1).stride([2, 3])),
    ];
    for (what, x, weight, opts) in conv {
        check(what, &[smooth(x, 1), smooth(weight, 2)], &|x| x[0].conv2d(&x[1], None, opts.clone()));
    }
    let opts = ConvTransposeOpts::default;
    let transposed: [(&str, &[usize], &[usize], ConvTransposeOpts); 4] = [
        (
            "some added",
            &[1, 4, 2, 3],
            &[4, 1, 3, 2],
            opts().stride([2, 3]).output_padding([1, 0]).groups(2).padding(1),
        ),
        ("stride over the kernel", &[1, 2, 2, 2], &[2, 1, 2, 1], opts().stride(3).output_padding([2, 1])),
        ("all cut off", &[1, 1, 3, 3], &[1, 2, 2, 1], opts().stride(2).padding([2, 1])),
        ("far apart", &[1, 1, 3, 2], &[1, 1, 2, 2], opts().stride(2).dilation([2, 3]).padding(1)),
    ];
    for (what, x, weight, opts) in transposed {
        let what = format!("transposed, {what}");
        let inputs = [smooth(x, 1), smooth(weight, 2)];
        check(&what, &inputs, &|x| x[0].conv_transpose2d(&x[1], None, opts.clone()));
    }
}

#[test]
fn windows() {
    for (size, stride, pad, ceil) in
        [(3, 2, 1, false), (3, 2, 0, true), (5, 2, 2, false), (5, 1, 2, false), (2, 3, 1, true)]
    {
        let x = [smooth(&[2, 7, 6], 1)];
        let opts = AvgPoolOpts::default().stride(stride).padding(pad).ceil_mode(ceil);
        check(&format!("means of {size} by {stride}"), &x, &|x| x[0].avg_pool2d(size, opts.clone()));
        let opts = MaxPoolOpts::default().stride(stride).padding(pad).ceil_mode(ceil);
        check(&format!("maxima of {size} by {stride}"), &x, &|x| x[0].max_pool2d(size, opts.clone()));
        let most = |x: &Tensor| x.max_pool2d_with_indices(size, opts.clone()).0;
        check(&format!("maxima of {size} by {stride} with their places"), &x, &|x| most(&x[0]));
    }
}

/// As PyTorch has it; windows that share their largest element add up.
#[test]
fn the_first_of_equal_elements_of_a_window_has_the_gradient() {
    let x = f64s(&[1, 1, 5], vec![1.0, 1.0, 0.0, 2.0, 0.0]).with_requires_grad();
    let of = |y: Tensor| grad(&(y * f64s(&[2], vec![1.0, 10.0])).sum(..), &[&x])[0].to_vec::<f64>().unwrap();
    let wide = MaxPoolOpts::default().stride(2);
    assert_eq!(of(x.max_pool1d(3, wide)), [1.0, 0.0, 0.0, 10.0, 0.0]);
    let apart = MaxPoolOpts::default().stride(3);
    assert_eq!(of(x.max_pool1d_with_indices(2, apart).0), [1.0, 0.0, 0.0, 10.0, 0.0]);
    assert_eq!(of(x.max_pool1d(4, MaxPoolOpts::default().stride(1))), [0.0, 0.0, 0.0, 11.0, 0.0]);
}

#[test]
fn repetitions_and_named_operations() {
    check("fori_loop", &[smooth(&[2], 1), smooth(&[2, 2], 2)], &|x| {
        fori_loop(3, &x[..1], |i, c| vec![(c[0].matmul(&x[1]) + i).tanh()]).remove(0)
    });
    let both = |x: &[Tensor]| {
        let (last, ys) = scan(&x[..1], &x[1..2], |c, s| {
            let next = (&c[0] * &x[2] + &s[0]).sin();
            (vec![next.clone()], vec![&next * &next])
        });
        Tensor::cat(&[&last[0].unsqueeze(0), &ys[0]], 0)
    };
    check("scan", &[smooth(&[2], 1), smooth(&[3, 2], 2), smooth(&[2], 3)], &both);
    check("composite", &[smooth(&[2, 3], 1), positive(&[2, 3], 2)], &|x| {
        kiln::composite("scaled", &[], x, |x| vec![x[0].tanh() * &x[1]]).remove(0)
    });
}

#[test]
fn a_repetition_runs_forward_once_for_its_value_and_its_gradient() {
    let x = smooth(&[4], 1).with_requires_grad();
    let y = fori_loop(5, std::slice::from_ref(&x), |_, c| vec![c[0].sin()]).remove(0).sum(..);
    let gradient = grad(&y, &[&x]).remove(0);
    let together = kiln::plan(&[&y, &gradient]).unwrap();
    let alone = kiln::plan(&[&gradient]).unwrap();
    let launches = |plan: &PlanReport| plan.kernels.iter().map(|k| k.launches).sum::<u64>();
    // The value adds its sum; its loop is the one whose carries the gradient reads.
    assert_eq!(launches(&together), launches(&alone) + 1, "{together}\n{alone}");
}

#[test]
fn ties_are_as_in_pytorch() {
    let gradient = |values: &[f64], f: Function| {
        let x = f64s(&[values.len()], values.to_vec()).with_requires_grad();
        grad(&f(std::slice::from_ref(&x)).sum(..), &[&x]).remove(0).to_vec::<f64>().unwrap()
    };
    assert_eq!(gradient(&[-1.0, 0.0, 2.0], &|x| x[0].abs()), [-1.0, 0.0, 1.0]);
    assert_eq!(gradient(&[1.0, 3.0, 3.0], &|x| x[0].max(0)), [0.0, 0.5, 0.5]);
    assert_eq!(gradient(&[1.0, 3.0, 3.0], &|x| x[0].max_with_index(0).0), [0.0, 1.0, 0.0]);
    assert_eq!(gradient(&[-1.0, 0.0, 2.0], &|x| x[0].relu()), [0.0, 0.0, 1.0]);
    assert_eq!(gradient(&[-1.0, 0.0, 1.0, 2.0], &|x| x[0].clamp(0.0, 2.0)), [0.0, 0.0, 1.0, 0.0]);
    assert_eq!(gradient(&[1.0, 2.0], &|x| x[0].maximum(&f64s(&[2], vec![1.0, 0.0]))), [0.5, 1.0]);
}

#[test]
fn gradients_accumulate_in_leaves() {
    let w = f64s(&[2], vec![1.0, 2.0]).with_requires_grad();
    assert!(w.grad().is_none());
    (&w * &w).sum(..).backward().unwrap();
    (&w * 3.0).sum(..).backward().unwrap();
    let sum = w.grad().unwrap();
    assert_eq!(sum.to_vec::<f64>().unwrap(), [5.0, 7.0]);
    assert!(!sum.is_tracked());
    w.zero_grad();
    assert!(w.grad().is_none());
}

#[test]
fn a_graph_is_gone_through_once_unless_retained() {
    let w = f64s(&[2], vec![1.0, 2.0]).with_requires_grad();
    let loss = (&w * &w).sum(..);
    loss.backward_with(GradOpts::default().retain_graph(true)).unwrap();
    loss.backward().unwrap();
    let error = loss.backward().unwrap_err().to_string();
    assert!(error.contains("retain_graph") && error.contains("gradients.rs"), "{error}");
    assert_eq!(w.grad().unwrap().to_vec::<f64>().unwrap(), [4.0, 8.0]);
    assert_eq!(number(&loss), 5.0);
}

#[test]
fn realized_tensors_keep_what_gradients_need() {
    let w = f64s(&[2], vec![1.0, 2.0]).with_requires_grad();
    let hidden = &w * &w;
    let loss = (&hidden * &w).sum(..);
    kiln::realize(&[&hidden, &loss]).unwrap();
    assert_eq!(grad(&loss, &[&w, &hidden])[0].to_vec::<f64>().unwrap(), [3.0, 12.0]);
}

#[test]
fn detached_and_untracked_tensors_are_constants() {
    let w = f64s(&[2], vec![1.0, 2.0]).with_requires_grad();
    let y = (&w
        * &w.detach()
        * &{
            let _guard = no_grad();
            &w + 0.0
        })
        .sum(..);
    assert_eq!(grad(&y, &[&w])[0].to_vec::<f64>().unwrap(), [1.0, 4.0]);
    let realized = (&w * 2.0).realize().unwrap().detach();
    assert!(!realized.is_tracked() && realized.is_realized());
}

#[test]
fn mistakes_say_what_was_expected() {
    let w = f64s(&[2], vec![1.0, 2.0]).with_requires_grad();
    let other = f64s(&[2], vec![1.0, 2.0]).with_requires_grad();
    let text = |x: &Tensor| x.check().unwrap_err().to_string();
    let plain = f64s(&[2], vec![1.0, 2.0]);
    assert!(text(&grad(&w.sum(..), &[&plain])[0]).contains("inputs that require gradients"));
    assert!(text(&grad(&w.sum(..), &[&other])[0]).contains("allow_unused"));
    assert!(text(&grad(&(&w * 2.0), &[&w])[0]).contains("one element"));
    assert!(text(&grad(&plain.sum(..), &[&w])[0]).contains("requires gradients"));
    assert!(text(&Tensor::arange(0, 3, 1, ()).with_requires_grad()).contains("floating"));
    let wrong = GradOpts::default().cotangent(&f64s(&[3], vec![1.0; 3]));
    assert!(text(&grad_with(&(&w * 2.0), &[&w], wrong)[0]).contains("cotangent"));
    let zeros = grad_with(&w.sum(..), &[&other], GradOpts::default().allow_unused(true));
    assert_eq!(zeros[0].to_vec::<f64>().unwrap(), [0.0, 0.0]);
    assert!(plain.sum(..).backward().is_err());
}

#[test]
fn a_given_cotangent_weighs_the_outputs() {
    let w = f64s(&[2], vec![1.0, 2.0]).with_requires_grad();
    let opts = GradOpts::default().cotangent(&f64s(&[2], vec![10.0, 0.5]));
    assert_eq!(grad_with(&(&w * &w), &[&w], opts)[0].to_vec::<f64>().unwrap(), [20.0, 2.0]);
}

#[test]
fn users_rules_replace_the_gradient() {
    let x = f64s(&[2], vec![0.2, 1.7]).with_requires_grad();
    let y = custom_grad(&[&x], |x| x[0].round(), |_, y, g| vec![Some(g * y)]);
    assert_eq!(grad(&y.sum(..), &[&x])[0].to_vec::<f64>().unwrap(), [0.0, 2.0]);
    let same = custom_grad(&[&x], |x| x[0].clone(), |_, _, g| vec![Some(g * 7.0)]);
    assert_eq!(grad(&same.sum(..), &[&x])[0].to_vec::<f64>().unwrap(), [7.0, 7.0]);
}

#[test]
fn a_chain_of_100_000_operations_has_a_gradient() {
    let x = f64s(&[1], vec![1.0]).with_requires_grad();
    let y = (0..100_000).fold(x.clone(), |y, _| y + 0.0 * &x);
    assert!(grad(&y.sum(..), &[&x])[0].check().is_ok());
}
