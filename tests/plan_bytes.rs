//! What a plan holds, as the allocator sees it. Alone in its program, since the
//! allocator is everybody's.

use kiln::prelude::*;
use kiln::{Context, with_context};

#[path = "support/heap.rs"]
mod heap;

/// Bytes for each kernel that a context keeps of the plan of a chain of kernels: the
/// plan and its key.
fn bytes_of_a_kernel(link: &dyn Fn(&Tensor, usize) -> Tensor) -> usize {
    const KERNELS: usize = 2000;
    heap::count();
    with_context(&Context::new(), || {
        let x = Tensor::from_vec(vec![0.5f32; 16], [4, 4], Device::null());
        let chain = |count| (0..count).fold(x.clone(), |x, number| link(&x, number));
        // What is made once is made.
        chain(2).plan().expect("a plan");
        let y = chain(KERNELS);
        let before = heap::held();
        assert_eq!(y.plan().expect("a plan").launches(), KERNELS as u64);
        let held = usize::try_from(heap::held() - before).expect("a plan is held");
        assert!(held > 0, "nothing is counted");
        held / KERNELS
    })
}

#[test]
fn a_plan_holds_little_for_each_kernel() {
    let w = Tensor::from_vec(vec![0.5f32; 16], [4, 4], Device::null());
    let alike = bytes_of_a_kernel(&|x, _| x.matmul(&w).tanh());
    let different = bytes_of_a_kernel(&|x, number| (x.matmul(&w) + number as f64).tanh());
    let rows = Tensor::from_vec(vec![0.5f32; 16 * 1024], [4 * 1024, 4], Device::null());
    let elsewhere = bytes_of_a_kernel(&|x, number| x.matmul(&rows.narrow(0, number, 4)).tanh());
    let many = bytes_of_a_kernel(&|x, _| x.matmul(&w).gelu());
    println!(
        "{alike} bytes for each of equal kernels, {different} where all differ in a number, \
         {elsewhere} in a position, {many} of many nodes"
    );
    assert!(alike <= 448, "{alike} bytes for each of equal kernels");
    assert!(different <= 864, "{different} bytes for each kernel where all differ in a number");
    assert!(elsewhere <= 896, "{elsewhere} bytes for each kernel where all differ in a position");
    assert!(many <= 928, "{many} bytes for each kernel of many nodes");
}
