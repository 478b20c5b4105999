//! Layer 1: the graph. What tensor programs are made of, what they mean, and
//! the rewrites that keep the meaning.
//!
//! - [`alu`] and [`monoid`]: the two tables of scalar meaning.
//! - [`op`]: the primitives, one enum; [`mod@infer`]: their type rules.
//! - [`node`]: persistent nodes, as users build them; [`graph`]: the dense
//!   form the compiler works on.

pub mod buffer;
pub mod built_in;
pub mod claim;
pub mod collect;
pub mod collective;
pub mod device_collective;
pub mod graph;
pub mod history;
pub mod infer;
pub mod lazy;
pub mod lift;
pub mod mismatch;
pub mod monoid;
pub mod node;
pub mod op;
pub mod open;
pub mod oracle;
pub mod pending;
pub mod print;
pub mod rewrite;
pub mod simplify;
mod sync;
pub mod ty;
pub mod verify;
pub mod version;

pub use buffer::{DeviceBuffer, Layout, Leaf, Reclaim};
pub use built_in::BuiltIn;
pub use graph::{Graph, GraphNode, NodeId, NodeIds};
pub use infer::{infer, infer_alike};
#[doc(inline)]
pub use kiln_simd::alu::{self, AluOp};
pub use monoid::Monoid;
pub use node::Node;
pub use op::{
    Axes, Body, Composite, ContractDims, Custom, LoopSpec, Op, Packing, PadAxis, ScatterMode, SliceAxis,
};
pub use ty::{Type, TypeParts};
