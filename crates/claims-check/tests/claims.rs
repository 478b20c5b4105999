//! The protocol by which threads claim what they compute (`src/ir/claim.rs`), under a model checker that runs the
//! threads in many orders. The file is compiled here as it is, with the checker's locks in the place of the
//! system's; nodes are replaced by small ones that follow the same rules. Three mistakes are planted, and found.

use std::sync::Arc;

use shuttle::thread;

/// What `claim.rs` synchronizes by.
mod sync {
    pub use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
}
#[allow(dead_code)] // the library uses more of it
#[path = "../../../src/ir/claim.rs"]
mod claim;

use claim::{ClaimError, Claimable, Deadlock, WaitingRoom, claim as claim_all};
use sync::{AtomicBool, Mutex, MutexGuard, Ordering};

/// Orders in which threads run, tried for each property.
const ORDERS: usize = 2000;

/// Memory that holds one number.
type Memory = Arc<Mutex<i64>>;

/// A node: one more than its operand.
struct Node {
    operand: Mutex<Option<Arc<Node>>>,
    claimed: AtomicBool,
    value: Mutex<Option<Memory>>,
}

impl Claimable for Node {
    type Guarded = Option<Arc<Node>>;
    fn edges(&self) -> MutexGuard<'_, Self::Guarded> {
        self.operand.lock().unwrap()
    }
    fn claimed(&self) -> &AtomicBool {
        &self.claimed
    }
    fn is_computed(&self) -> bool {
        self.value.lock().unwrap().is_some()
    }
}

fn node(operand: Option<Arc<Node>>, value: Option<i64>) -> Arc<Node> {
    let value = value.map(|value| Arc::new(Mutex::new(value)));
    Arc::new(Node { operand: Mutex::new(operand), claimed: AtomicBool::new(false), value: Mutex::new(value) })
}

/// A number in memory.
fn leaf(value: i64) -> Arc<Node> {
    node(None, Some(value))
}

fn one_more(operand: Arc<Node>) -> Arc<Node> {
    node(Some(operand), None)
}

/// What may be wrong with a realize.
#[derive(Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    DonationWithoutClaim,
    ClaimNotGivenBack,
}

/// Computes a node, and gives its number; `None` if the kernel fails.
fn realize(node: &Arc<Node>, room: &WaitingRoom, planted: Planted, fails: bool) -> Option<i64> {
    loop {
        if let Some(value) = node.value.lock().unwrap().clone() {
            return Some(*value.lock().unwrap());
        }
        let operand = collect(node, room);
        let Some(operand) = operand else { continue };
        if planted == Planted::DonationWithoutClaim {
            compute(node, operand);
            continue;
        }
        let claims = match claim_all(std::slice::from_ref(node), room) {
            Ok(claims) => claims,
            Err(ClaimError::Computed) => continue,
            Err(ClaimError::Claimed(other)) => {
                room.wait(&*other, &[]).expect("nothing is held");
                continue;
            }
        };
        if fails {
            if planted == Planted::ClaimNotGivenBack {
                std::mem::forget(claims);
            }
            return None;
        }
        compute(node, operand);
    }
}

/// The operand, if there is no value yet; waits for whoever has a claim.
fn collect(node: &Arc<Node>, room: &WaitingRoom) -> Option<Arc<Node>> {
    loop {
        let edges = node.edges();
        if !node.claimed.load(Ordering::Relaxed) {
            return edges.clone();
        }
        drop(edges);
        room.wait(&**node, &[]).expect("nothing is held");
    }
}

/// Overwrites the operand's memory if nobody else can read it.
fn compute(node: &Arc<Node>, operand: Arc<Node>) {
    let from = operand.value.lock().unwrap().clone().expect("a leaf");
    // The edge, and this thread.
    let donated = Arc::strong_count(&operand) == 2;
    let number = *from.lock().unwrap();
    let to = if donated { from } else { Arc::new(Mutex::new(0)) };
    *to.lock().unwrap() = number + 1;
    let mut value = node.value.lock().unwrap();
    if value.is_none() {
        *value = Some(to);
    }
    drop(value);
    let edge = node.edges().take();
    drop(edge);
}

/// Three threads ask for one value, of which the first may fail to compute it.
fn all_read_one_value(planted: Planted) {
    shuttle::check_random(
        move || {
            let room = Arc::new(WaitingRoom::new());
            let y = one_more(leaf(0));
            let threads: Vec<_> = (0..3)
                .map(|number| {
                    let (y, room) = (y.clone(), room.clone());
                    thread::spawn(move || {
                        realize(&y, &room, planted, number == 0 && planted == Planted::ClaimNotGivenBack)
                    })
                })
                .collect();
            for thread in threads {
                assert!(matches!(thread.join().unwrap(), Some(1) | None));
            }
        },
        ORDERS,
    );
}

fn is_found(check: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let found = std::panic::catch_unwind(check).expect_err("the planted mistake is not found");
    let text = found.downcast_ref::<String>().cloned();
    text.or_else(|| found.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
}

#[test]
fn all_read_what_one_computes() {
    all_read_one_value(Planted::Nothing);
}

#[test]
fn a_donation_without_a_claim_is_found() {
    is_found(|| all_read_one_value(Planted::DonationWithoutClaim));
}

#[test]
fn a_claim_that_is_not_given_back_is_found() {
    let text = is_found(|| all_read_one_value(Planted::ClaimNotGivenBack));
    assert!(text.contains("deadlock"), "{text}");
}

#[test]
fn what_fails_can_be_computed_by_others() {
    shuttle::check_random(
        || {
            let room = Arc::new(WaitingRoom::new());
            let y = one_more(leaf(0));
            let failing = {
                let (y, room) = (y.clone(), room.clone());
                thread::spawn(move || realize(&y, &room, Planted::Nothing, true))
            };
            assert_eq!(realize(&y, &room, Planted::Nothing, false), Some(1));
            assert!(matches!(failing.join().unwrap(), None | Some(1)));
        },
        ORDERS,
    );
}

/// Claims both nodes and lets them go, again and again until both are had.
fn have_both(first: &Arc<Node>, second: &Arc<Node>, room: &WaitingRoom) {
    loop {
        match claim_all(&[first.clone(), second.clone()], room) {
            Ok(claims) => return drop(claims),
            Err(ClaimError::Claimed(other)) => room.wait(&*other, &[]).expect("nothing is held"),
            Err(ClaimError::Computed) => panic!("nobody computes"),
        }
    }
}

#[test]
fn claims_that_overlap_end() {
    shuttle::check_pct(
        || {
            let room = Arc::new(WaitingRoom::new());
            let nodes = [one_more(leaf(0)), one_more(leaf(0)), one_more(leaf(0))];
            let threads: Vec<_> = (0..3)
                .map(|number| {
                    let (nodes, room) = (nodes.clone(), room.clone());
                    thread::spawn(move || have_both(&nodes[number], &nodes[(number + 1) % 3], &room))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        },
        ORDERS,
        3,
    );
}

#[test]
fn claims_that_are_waited_for_in_opposite_orders_are_found() {
    let text = is_found(|| {
        shuttle::check_random(
            || {
                let room = Arc::new(WaitingRoom::new());
                let (a, b) = (one_more(leaf(0)), one_more(leaf(0)));
                let other = {
                    let (a, b, room) = (a.clone(), b.clone(), room.clone());
                    thread::spawn(move || one_after_the_other(&b, &a, &room, &[]))
                };
                _ = one_after_the_other(&a, &b, &room, &[]);
                _ = other.join().unwrap();
            },
            ORDERS,
        );
    });
    assert!(text.contains("deadlock"), "{text}");
}

/// Waits for the second node with a claim on the first, as a realize within a kernel does.
fn one_after_the_other(
    a: &Arc<Node>,
    b: &Arc<Node>,
    room: &WaitingRoom,
    holds: &[usize],
) -> Result<(), Deadlock> {
    let first = loop {
        match claim_all(std::slice::from_ref(a), room) {
            Ok(first) => break first,
            Err(_) => room.wait(&**a, &[])?,
        }
    };
    let second = loop {
        match claim_all(std::slice::from_ref(b), room) {
            Ok(second) => break second,
            Err(_) => room.wait(&**b, holds)?,
        }
    };
    drop(second);
    drop(first);
    Ok(())
}

/// A thread that says what it holds is told that its wait would not end.
#[test]
fn a_wait_that_closes_a_circle_is_refused() {
    shuttle::check_random(
        || {
            let room = Arc::new(WaitingRoom::new());
            let (a, b) = (one_more(leaf(0)), one_more(leaf(0)));
            let address = |node: &Arc<Node>| [Arc::as_ptr(node) as usize];
            let other = {
                let (a, b, room, holds) = (a.clone(), b.clone(), room.clone(), address(&b));
                thread::spawn(move || one_after_the_other(&b, &a, &room, &holds))
            };
            let one = one_after_the_other(&a, &b, &room, &address(&a));
            let other = other.join().unwrap();
            assert!(one.is_ok() || other.is_ok(), "both cannot be refused");
        },
        ORDERS,
    );
}
