//! Kernels that only copy or clear.

use crate::base::DType;
use crate::kernel::{
    Access, Affine, AxisId, Expr, ExprId, ExprNode, Kernel, KernelInput, KernelStore, LoopAxis, Workload,
};
use crate::runtime::wgpu::tests::device;
use crate::runtime::{Backend, Binding, Bindings, IndexStatus};

/// Elements of an input from one on, or a number.
fn kernel(dtype: DType, count: usize, value: Expr) -> Kernel {
    let store =
        KernelStore { dtype, value: ExprId(0), level: 0, address: Affine::axis(AxisId(0)), numel: count };
    Kernel {
        name: "copy".to_string().into(),
        axes: vec![LoopAxis { extent: count, level: 0 }].into(),
        exprs: vec![ExprNode { expr: value, dtype, level: 0 }],
        inputs: vec![KernelInput { dtype, numel: count }].into(),
        stores: vec![store].into(),
        ..Kernel::default()
    }
}

fn from(first: i64) -> Expr {
    let affine = Affine { offset: first, ..Affine::axis(AxisId(0)) };
    Expr::Load(0, Access { affine, ..Access::default() }.into())
}

#[test]
fn what_only_copies_or_clears_needs_no_shader_and_does_what_one_would() {
    let Some(backend) = device() else { return };
    let data: Vec<u8> = (0..1024u32).map(|i| (i % 251) as u8).collect();
    let read = backend.upload(&data).expect("memory");
    // Type, elements, value, where the input's and the output's memory starts, and what is
    // there then: the input's bytes from one on, or zeros.
    let cases = [
        (DType::F32, 64, from(0), (0, 0), "copies", Some(0)),
        (DType::F32, 50, from(4), (8, 256), "copies", Some(24)),
        (DType::U8, 8, from(4), (0, 0), "copies", Some(4)),
        // Its first byte starts no word.
        (DType::U8, 8, from(1), (0, 0), "copies", Some(1)),
        // No whole words.
        (DType::U8, 7, from(4), (0, 0), "@compute", Some(4)),
        (DType::F32, 64, Expr::Const(0), (0, 256), "clears", None),
        (DType::U8, 7, Expr::Const(0), (0, 0), "@compute", None),
    ];
    for (dtype, count, value, (start, at), text, first) in cases {
        let work = Workload::Kernel(kernel(dtype, count, value));
        let program = backend.compile(&work).expect("a program");
        assert!(program.source().contains(text), "{}", program.source());
        let written = backend.upload(&[9; 1024]).expect("memory");
        let launch = |read, written| {
            let inputs = [Binding { buffer: read, offset: start }];
            let outputs = [Binding { buffer: written, offset: at }];
            let status = IndexStatus::default();
            program.launch(&Bindings { inputs: &inputs, outputs: &outputs, scalars: &[], status: &status })
        };
        launch(&read, &written).expect("a launch");
        let bytes = count * dtype.size();
        let mut out = [0; 1024];
        backend.download(&written, 0, &mut out).expect("a download");
        let want = first.map_or(vec![0; bytes], |first| data[first..first + bytes].to_vec());
        assert_eq!(out[at..at + bytes], want, "{work:?}");
        assert!(out[..at].iter().chain(&out[at + bytes..]).all(|&byte| byte == 9), "{work:?}");
    }
}

#[test]
fn within_one_block_a_shader_copies() {
    let Some(backend) = device() else { return };
    let data: Vec<u8> = (0..1024u32).map(|i| (i % 251) as u8).collect();
    let block = backend.upload(&data).expect("memory");
    let program = backend.compile(&Workload::Kernel(kernel(DType::F32, 64, from(2)))).expect("a program");
    let inputs = [Binding { buffer: &block, offset: 0 }];
    let outputs = [Binding { buffer: &block, offset: 512 }];
    let status = IndexStatus::default();
    let bindings = Bindings { inputs: &inputs, outputs: &outputs, scalars: &[], status: &status };
    program.launch(&bindings).expect("a launch");
    let mut out = [0; 256];
    backend.download(&block, 512, &mut out).expect("a download");
    assert_eq!(out, data[8..264]);
}
