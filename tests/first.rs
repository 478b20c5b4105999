use kiln::base::*; use kiln::tensor::*;
#[test] fn adds() {
    let host = |v: Vec<f32>, s: Vec<usize>| Tensor::from_vec(v, s, ());
    let a = host((0..12).map(|x| x as f32).collect(), vec![3,4]);
    let b = (&a * 2.0 + 1.0) / &a.sum_keepdim(-1);
    println!("{:?}", b.to_vec::<f32>().unwrap());
    let c = a.softmax(-1);
    println!("{:?}", c.to_vec::<f32>().unwrap());
    println!("{:?}", a.matmul(&a.t()).to_vec::<f32>().unwrap());
    println!("{:?}", kiln::plan::context::current().counters());
}
