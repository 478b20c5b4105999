//! A GPU tells of a bad index when the host next waits, and later steps may have run by then. The state is as if the
//! bad batches had not been there.

use super::*;

/// What is made of a weight of 10 rows of 4 and three indices of rows.
type Use = fn(&Tensor, &Tensor) -> Tensor;
type State = Vec<Vec<f32>>;
type Start = fn(Param) -> Box<dyn Optimizer>;
type Step = fn(&mut dyn Optimizer, Device) -> kiln::Result<()>;

/// All of a state that a bad batch might change, and how many calls told of one.
fn trained(device: Device, batches: &[[i64; 3]], uses: Use, (start, step): (Start, Step)) -> (State, usize) {
    let weight =
        Param::new(Tensor::from_vec((0..40).map(|i| (i % 7) as f32 * 0.1).collect(), [10, 4], device));
    let mean = Var::new(Tensor::zeros([4], device));
    let last = Var::new(Tensor::zeros([], device));
    let [seen, rows] = [(); 2].map(|()| Var::new(Tensor::zeros([10], device)));
    let mut optimizer = start(weight.clone());
    let mut failed = 0;
    for &ids in batches {
        optimizer.zero_grad();
        let ids = Tensor::from_vec(ids.to_vec(), [3], device);
        let x = weight.get();
        let loss = uses(&x, &ids).square().mean(..);
        mean.set(mean.get() * 0.5 + x.mean(0) + loss.detach()).unwrap();
        // What it was is not part of what it becomes.
        last.set(loss.detach()).unwrap();
        // Written in place, at indices that are right.
        let (at, ones) = (ids.clamp(0, 9), Tensor::ones([3], device));
        seen.set(seen.get().index_add(0, &at, &ones, 1.0)).unwrap();
        rows.set(rows.get().scatter(0, &at, &(ones + loss.detach()))).unwrap();
        loss.backward().unwrap();
        failed += usize::from(step(&mut *optimizer, device).is_err());
    }
    failed += usize::from(device.synchronize().is_err());
    let values = [weight.get(), mean.get(), last.get(), seen.get(), rows.get()];
    (values.iter().map(|x| x.to_vec().unwrap()).collect(), failed)
}

/// An index that a loop's body computes.
fn computed(id: &Tensor) -> Tensor {
    (id + 1) - 1
}

/// The rows that a loop finds by ids that it carries, which change places.
fn carried(x: &Tensor, ids: &Tensor) -> Tensor {
    let next = |_: &Tensor, carries: &[Tensor]| {
        let [x, ids] = carries else { panic!("two carries") };
        vec![x + ids.narrow(0, 0, 1).embedding(x).sin(), ids.roll(1, 0)]
    };
    kiln::fori_loop(3, &[x.clone(), ids.clone()], next).remove(0)
}

/// A loop in which a row of what it carries is looked up and added to all.
fn in_a_loop(x: &Tensor, ids: &Tensor, row: impl Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
    let next = |carries: &[Tensor], ids: &[Tensor]| {
        (vec![&carries[0] + row(&carries[0], &ids[0].reshape([1]))], vec![])
    };
    kiln::scan(&[x.clone()], &[ids.clone()], next).0.remove(0)
}

#[test]
fn a_step_that_fails_late_changes_nothing() {
    let uses: [Use; 13] = [
        |x, ids| ids.embedding(x),
        |x, ids| x.t().narrow(0, 0, 3).log_softmax(1).nll_loss(ids, Default::default()),
        |x, ids| x.index_add(0, ids, &(x.narrow(0, 0, 3) * 2.0), 1.0),
        |x, ids| x.gather(0, &ids.reshape([3, 1]).expand([3, 4])).flip(0).cumsum(0),
        |x, ids| in_a_loop(x, &ids.flip(0), |x, id| id.embedding(x)),
        |x, ids| in_a_loop(x, ids, |x, id| kiln::checkpoint(|x| id.embedding(x).sin(), x)),
        // Of which only a part is read.
        |x, ids| ids.embedding(x).narrow(0, 0, 2),
        |x, ids| ids.embedding(x).index_select(0, &Tensor::from_vec(vec![0i64, 1], [2], x.device())),
        // Which bodies compute.
        |x, ids| in_a_loop(x, ids, |x, id| computed(id).embedding(x).sin()),
        |x, ids| in_a_loop(x, ids, |x, id| kiln::checkpoint(|x| computed(id).embedding(x).sin(), x)),
        |x, ids| {
            let next = |_: &Tensor, c: &[Tensor]| vec![&c[0] + c[1].embedding(&c[0]).sin(), computed(&c[1])];
            in_a_loop(x, ids, |x, id| kiln::fori_loop(2, &[x.narrow(0, 0, 10), id.clone()], next).remove(0))
        },
        |x, ids| {
            in_a_loop(x, ids, |x, id| {
                let inputs = [x.clone(), id.clone()];
                kiln::composite("row", &[], &inputs, |c| vec![computed(&c[1]).embedding(&c[0]).sin()])
                    .remove(0)
            })
        },
        carried,
    ];
    let adam: Start = |weight| Box::new(Adam::new([weight], AdamOpts::default().lr(0.1)));
    let sgd: Start = |weight| Box::new(Sgd::new([weight], SgdOpts::default().lr(0.1).momentum(0.9)));
    let step: Step = |optimizer, _| optimizer.step();
    let unless: Step = |optimizer, device| optimizer.step_unless(&Tensor::full((), false, device));
    for device in devices() {
        for (number, uses) in uses.into_iter().enumerate() {
            for optimizer in [(sgd, step), (adam, step), (adam, unless)] {
                let (good, none) = trained(device, &[[1, 2, 3], [4, 5, 6], [7, 8, 9]], uses, optimizer);
                let bad = [[1, 2, 3], [1, 99, 3], [4, 5, 6], [-1, 0, 0], [7, 8, 9]];
                let (state, failed) = trained(device, &bad, uses, optimizer);
                assert_eq!((none, good), (0, state), "{device} {number}");
                assert!(failed > 0, "{device} {number}");
            }
        }
    }
}

/// The device counts the steps on which something depends, wherever an index is used.
#[test]
fn a_step_that_fails_late_is_not_counted() {
    let uses: [Use; 3] = [
        |x, ids| ids.embedding(x),
        |x, ids| in_a_loop(x, ids, |x, id| id.embedding(x)),
        |x, ids| {
            let number = |i: &Tensor| i + ids.max(0).to_dtype(DType::F32).to_dtype(DType::I64);
            let next = |i: &Tensor, c: &[Tensor]| vec![&c[0] + number(i).reshape([1]).embedding(&c[0])];
            kiln::fori_loop(1, &[x.clone()], next).remove(0)
        },
    ];
    for device in devices() {
        for (number, uses) in uses.into_iter().enumerate() {
            let weight = Param::new(Tensor::ones([4, 2], device));
            let mut optimizer = Adam::new([weight.clone()], AdamOpts::default());
            for id in [0, 9, 1, 2] {
                optimizer.zero_grad();
                let ids = Tensor::from_vec(vec![id], [1], device);
                uses(&weight.get(), &ids).sum(..).backward().unwrap();
                // Told now, or later.
                _ = optimizer.step();
            }
            _ = device.synchronize();
            let steps = optimizer.state_dict().unwrap();
            let steps = steps.get("groups.0.params.0.steps").unwrap().item::<i64>().unwrap();
            assert_eq!(steps, 3, "{device} {number}");
        }
    }
}

/// Where an index is bad of which only a part is read, an error is told and the state kept, or neither.
#[test]
fn state_is_kept_only_where_an_error_is_told() {
    for device in devices() {
        for (in_a_loop, bad) in
            [(false, [1, 2, 99]), (true, [1, 2, 99]), (false, [1, 99, 2]), (true, [1, 99, 2])]
        {
            let (table, sum) = (realized(vec![1.0; 8], device), Var::new(realized(vec![0.0], device)));
            let line = line!() + 1;
            let two = |ids: &Tensor| table.index_select(0, ids).narrow(0, 0, 2).sum(..).reshape([1]);
            let ids = Tensor::from_vec(bad.to_vec(), [3], device);
            let found = if in_a_loop {
                kiln::fori_loop(2, &[sum.get()], |i, c| vec![&c[0] + two(&((&ids + i) - i))]).remove(0) * 0.5
            } else {
                sum.get() + two(&ids)
            };
            sum.set(found).unwrap();
            let told = [sum.get().realize().err(), device.synchronize().err()];
            let told: Vec<Error> = told.into_iter().flatten().collect();
            let kept = sum.get().to_vec::<f32>().unwrap() == [0.0];
            assert_eq!(told.len(), usize::from(kept), "{device} {in_a_loop} {bad:?}");
            for error in told {
                let Error::IndexOutOfRange { op, index: 99, extent: 8, span } = error else {
                    panic!("{error}")
                };
                assert_eq!((op, span.line()), ("index_select", line), "{device} {in_a_loop} {bad:?}");
            }
            assert!(kept || bad[1] == 2, "{device} {in_a_loop} {bad:?}");
        }
    }
}

/// A batch between others leaves nothing in the sums of gradients.
#[test]
fn gradients_of_a_batch_that_fails_late_are_forgotten() {
    for device in devices() {
        let accumulated = |batches: &[[i64; 3]]| {
            let weights = [40, 12].map(|extent| Param::new(realized(vec![0.5; extent], device)));
            let mut told = 0;
            for ids in batches {
                let ids = Tensor::from_vec(ids.to_vec(), [3], device);
                let x = ids.embedding(&weights[0].get().reshape([10, 4])).reshape([12]);
                let loss = (x * weights[1].get()).square().sum(..);
                loss.backward().unwrap();
                told += usize::from(loss.realize().is_err());
            }
            told += usize::from(device.synchronize().is_err());
            let mut gradients: Vec<Vec<f32>> = Vec::new();
            let gradient =
                |x: &Param| x.grad().map_or(vec![0.0; x.shape().numel()], |grad| grad.to_vec().unwrap());
            gradients.extend(weights.iter().map(gradient));
            let mut adam = Adam::new(weights.clone(), AdamOpts::default().lr(0.1));
            adam.step().unwrap();
            gradients.extend(weights.iter().map(|x| x.get().to_vec().unwrap()));
            (gradients, told > 0)
        };
        let good = accumulated(&[[1, 2, 3], [4, 5, 6], [1, 5, 9]]);
        let bad = [[1, 2, 3], [1, 99, 3], [4, 5, 6], [-1, 0, 0], [1, 5, 9], [10, 9, 9]];
        assert_eq!(accumulated(&bad), (good.0.clone(), true), "{device}");
        assert_eq!(accumulated(&[&[[0, 0, 99]], &bad[..]].concat()), (good.0, true), "{device}");
        let nothing = [(40, 0.0), (12, 0.0), (40, 0.5), (12, 0.5)].map(|(extent, x)| vec![x; extent]);
        assert_eq!(accumulated(&[[0, 0, 99], [99, 1, 2]]), (nothing.to_vec(), true), "{device}");
    }
}

/// A step of which all gradients were void is none, as if nobody had asked for them.
#[test]
fn a_step_after_a_batch_that_failed_late_moves_nothing() {
    let adam: Start = |weight| Box::new(Adam::new([weight], AdamOpts::default().lr(0.1)));
    let sgd: Start = |weight| Box::new(Sgd::new([weight], SgdOpts::default().lr(0.1).momentum(0.9)));
    for device in devices() {
        let trained = |start: Start, is_clipped: bool, batches: &[&[i64]]| {
            let weight = Param::new(realized(vec![1.0; 8], device));
            let mut optimizer = start(weight.clone());
            let table = || weight.get().reshape([4, 2]);
            for ids in batches {
                optimizer.zero_grad();
                for id in *ids {
                    let loss = Tensor::from_vec(vec![*id], [1], device).embedding(&table()).sum(..);
                    loss.backward().unwrap();
                    _ = loss.realize();
                }
                if is_clipped {
                    _ = clip_grad_norm(&[weight.clone()], 0.5);
                }
                optimizer.step().unwrap();
            }
            _ = device.synchronize();
            let state = optimizer.state_dict().unwrap();
            let value = |x: &Tensor| x.to_dtype(DType::F32).to_vec::<f32>().unwrap();
            // The host counts the steps of a rule that depends on none.
            let counts = state.iter().filter(|(name, _)| name.ends_with("exp_avg")).count() > 0;
            let told = state.iter().filter(|(name, _)| counts || !name.ends_with("steps"));
            (value(&weight.get()), told.map(|(name, x)| (name.to_string(), value(x))).collect::<Vec<_>>())
        };
        for start in [adam, sgd] {
            for is_clipped in [false, true] {
                let good = trained(start, is_clipped, &[&[0], &[1, 2], &[3]]);
                let bad: [&[i64]; 6] = [&[9], &[0], &[-1, 4], &[9, 1, 4, 2], &[99], &[3, 5]];
                assert_eq!(good, trained(start, is_clipped, &bad), "{device} {is_clipped}");
            }
        }
    }
}

/// What is written in place is written wholly or not at all, and the index that was bad is told.
#[test]
fn a_write_that_fails_late_changes_nothing() {
    type Write = fn(&Tensor, &Tensor, &Tensor) -> Tensor;
    let writes: [(Write, [f32; 3]); 4] = [
        (|x, ids, y| x.scatter(0, ids, y), [3.0, 3.0, 1.0]),
        (|x, ids, y| x.scatter(0, &ids.to_dtype(DType::I32), y), [3.0, 3.0, 1.0]),
        (|x, ids, y| x.index_add(0, ids, y, 1.0), [4.0, 4.0, 2.0]),
        (|x, ids, y| x.scatter_reduce(0, ids, y, ScatterReduce::Prod, true), [3.0, 3.0, 1.0]),
    ];
    for device in devices() {
        for (number, (write, [first, second, third])) in writes.into_iter().enumerate() {
            let table = Var::new(realized(vec![1.0; 6], device));
            let mut told = Vec::new();
            for (ids, by) in [([0i64, 1], 3.0), ([4, 99], 5.0), ([2, 3], 1.0)] {
                let ids = Tensor::from_vec(ids.to_vec(), [2], device);
                table.set(write(&table.get(), &ids, &Tensor::full([2], by, device))).unwrap();
                told.extend(table.get().realize().err());
            }
            told.extend(device.synchronize().err());
            let found = table.get().to_vec::<f32>().unwrap();
            assert_eq!(found, [first, second, third, third, 1.0, 1.0], "{device} {number}");
            assert!(told.len() == 1 && told[0].to_string().contains("99"), "{device} {number}: {told:?}");
        }
    }
}

/// Cells that are made again are the same state to a plan, wherever in memory they are.
#[test]
fn many_cells_fall_back_by_one_plan() {
    for device in devices() {
        with_context(&Context::new(), || {
            let (table, ids) = (realized(vec![1.0; 8], device), Tensor::from_vec(vec![1i64, 5], [2], device));
            let round = || {
                let cells: Vec<Var> =
                    (1..9).map(|extent| Var::new(realized(vec![0.0; extent], device))).collect();
                let sum = table.index_select(0, &ids).sum(..);
                cells.iter().for_each(|cell| cell.set(cell.get() + &sum).unwrap());
                sum.realize().unwrap();
                assert_eq!(cells[1].get().to_vec::<f32>().unwrap(), [2.0; 2], "{device}");
            };
            (0..2).for_each(|_| round());
            let plans = kiln::context().counters().plans_built;
            (0..8).for_each(|_| round());
            assert_eq!(kiln::context().counters().plans_built, plans, "{device}");
        });
    }
}
