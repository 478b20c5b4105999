//! Tests of nodes.

use super::*;
use crate::base::{DType, Device};
use crate::ir::alu::AluOp;
use crate::ir::buffer::{DeviceBuffer, Layout, Reclaim};

fn ty() -> Type {
    Type::new([2], DType::F32, Device::cpu())
}

fn number() -> Arc<Node> {
    Node::new(Op::Const(0.0.into(), DType::F32, Device::cpu()), ty(), Operands::new(), Span::caller())
}

fn sum(a: &Arc<Node>, b: &Arc<Node>) -> Arc<Node> {
    Node::of_two("sum", Op::Alu(AluOp::Add), None, [a.clone(), b.clone()], Span::caller())
}

fn memory(owner: &Arc<Taken>) -> Leaf {
    let buffer = DeviceBuffer::new(Device::cpu(), 8, 0, owner.clone());
    Leaf { buffer: Arc::new(buffer), layout: Layout::contiguous(&ty().shape) }
}

#[derive(Default)]
struct Taken(AtomicBool);

impl Reclaim for Taken {
    fn reclaim(&self, _: u64, _: usize) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn a_place_that_is_kept_keeps_no_memory() {
    let owner = Arc::new(Taken::default());
    let leaf = Node::leaf(ty(), memory(&owner), Span::caller());
    let top = sum(&leaf, &leaf);
    drop(leaf);
    drop(top);
    assert!(owner.0.load(Ordering::Acquire));
}

#[test]
fn a_node_in_the_place_of_another_is_new() {
    let owner = Arc::new(Taken::default());
    let below = Node::new(Op::Param(0, ty()), ty(), Operands::new(), Span::caller());
    below.set_grad_cell(Arc::default());
    let top = sum(&below, &below);
    let place = Arc::as_ptr(&below);
    below.set_value(memory(&owner));
    assert!(top.is_tracked());
    drop(below);
    drop(top);
    let leaf = Node::leaf(ty(), memory(&owner), Span::caller());
    let other = Type::scalar(DType::I64, Device::cpu());
    let node = Node::of_two("sum", Op::After, Some(other), [leaf.clone(), leaf], Span::caller());
    assert_eq!(Arc::as_ptr(&node), place);
    assert_eq!((node.ty().dtype, node.depth()), (DType::I64, 1));
    assert!(node.value().is_none() && node.grad_cell().is_none() && !node.is_tracked());
    assert_eq!((node.operands().len(), node.history().len()), (2, 0));
}

#[test]
fn a_node_that_is_held_weakly_leaves_no_place() {
    let below = sum(&Node::leaf(ty(), memory(&Arc::default()), Span::caller()), &number());
    let weak = Arc::downgrade(&below);
    let top = sum(&below, &below);
    drop(below);
    drop(top);
    assert!(weak.upgrade().is_none());
    let next: Vec<_> = (0..4).map(|_| number()).collect();
    assert!(next.iter().all(|node| Arc::as_ptr(node) != weak.as_ptr()));
}
