//! Options of optimizers, schedules and loaders. An optimizer says at its
//! first step what it was given.

use kiln::data::{DataLoader, Items, LoaderOpts};
use kiln::nn::Param;
use kiln::optim::*;
use kiln::{Error, Result};

use super::{Op, Tally, op};
use crate::floats;

pub fn run(tally: &mut Tally) {
    let numbers = [
        ("NaN", f64::NAN),
        ("-1", -1.0),
        ("a little below 0", -1e-300),
        ("infinity", f64::INFINITY),
        ("minus infinity", f64::NEG_INFINITY),
    ];
    tally.all(&options(), &numbers);
    tally.all(&later(), &numbers[..2]);
    let not_shares = [("NaN", f64::NAN), ("1", 1.0), ("2", 2.0), ("-0.1", -0.1), ("infinity", f64::INFINITY)];
    tally.all(&shares(), &not_shares);
    tally.row("nesterov without momentum", || first(Sgd::new(one(), SgdOpts::default().nesterov(true))));
    tally.row("nesterov with dampening", || {
        let opts = SgdOpts::default().nesterov(true).momentum(0.9).dampening(0.1);
        first(Sgd::new(one(), opts))
    });
    tally
        .row("steps unless a number holds", || Sgd::new(one(), SgdOpts::default()).step_unless(&floats([2])));
    loaders(tally);
}

fn one() -> [Param; 1] {
    [Param::new(floats([2]))]
}

/// What the first step says if its loss is scaled.
fn scaled(mut scaler: GradScaler) -> Result<(), Error> {
    let params = one();
    params[0].set_grad(Some(&floats([2])))?;
    scaler.step(&mut Sgd::new(params, SgdOpts::default()))
}

/// What the first step says.
fn first(mut optimizer: impl Optimizer) -> Result<(), Error> {
    optimizer.parameters()[0].set_grad(Some(&floats([2])))?;
    optimizer.step()
}

fn options() -> Vec<Op<f64>> {
    vec![
        op("lr of Sgd", |&n| first(Sgd::new(one(), SgdOpts::default().lr(n)))),
        op("momentum of Sgd", |&n| first(Sgd::new(one(), SgdOpts::default().momentum(n)))),
        op("weight decay of Sgd", |&n| first(Sgd::new(one(), SgdOpts::default().weight_decay(n)))),
        op("lr of Adam", |&n| first(Adam::new(one(), AdamOpts::default().lr(n)))),
        op("eps of Adam", |&n| first(Adam::new(one(), AdamOpts::default().eps(n)))),
        op("weight decay of Adam", |&n| first(Adam::new(one(), AdamOpts::default().weight_decay(n)))),
        op("lr of AdamW", |&n| first(AdamW::new(one(), AdamWOpts::default().lr(n)))),
        op("eps of AdamW", |&n| first(AdamW::new(one(), AdamWOpts::default().eps(n)))),
        op("weight decay of AdamW", |&n| first(AdamW::new(one(), AdamWOpts::default().weight_decay(n)))),
        op("lr of Lion", |&n| first(Lion::new(one(), LionOpts::default().lr(n)))),
        op("weight decay of Lion", |&n| first(Lion::new(one(), LionOpts::default().weight_decay(n)))),
        op("lr of RmsProp", |&n| first(RmsProp::new(one(), RmsPropOpts::default().lr(n)))),
        op("alpha of RmsProp", |&n| first(RmsProp::new(one(), RmsPropOpts::default().alpha(n)))),
        op("eps of RmsProp", |&n| first(RmsProp::new(one(), RmsPropOpts::default().eps(n)))),
        op("momentum of RmsProp", |&n| first(RmsProp::new(one(), RmsPropOpts::default().momentum(n)))),
        op("weight decay of RmsProp", |&n| {
            first(RmsProp::new(one(), RmsPropOpts::default().weight_decay(n)))
        }),
        op("lr of Adagrad", |&n| first(Adagrad::new(one(), AdagradOpts::default().lr(n)))),
        op("lr decay of Adagrad", |&n| first(Adagrad::new(one(), AdagradOpts::default().lr_decay(n)))),
        op("eps of Adagrad", |&n| first(Adagrad::new(one(), AdagradOpts::default().eps(n)))),
        op("start of Adagrad", |&n| {
            first(Adagrad::new(one(), AdagradOpts::default().initial_accumulator(n)))
        }),
        op("weight decay of Adagrad", |&n| {
            first(Adagrad::new(one(), AdagradOpts::default().weight_decay(n)))
        }),
        op("init scale of GradScaler", |&n| scaled(GradScaler::new(GradScalerOpts::default().init_scale(n)))),
        op("growth of GradScaler", |&n| scaled(GradScaler::new(GradScalerOpts::default().growth_factor(n)))),
        op("backoff of GradScaler", |&n| {
            scaled(GradScaler::new(GradScalerOpts::default().backoff_factor(n)))
        }),
        op("a group's lr", |&n| {
            Sgd::new(one(), SgdOpts::default()).add_group(one(), SgdOpts::default().lr(n))
        }),
        op("clip_grad_norm", |&n: &f64| clipped(|params| clip_grad_norm(params, -n.abs()).map(|_| ()))),
        op("clip_grad_value", |&n: &f64| clipped(|params| clip_grad_value(params, -n.abs()))),
    ]
}

/// Clips gradients that there are.
fn clipped(clip: impl Fn(&[Param]) -> Result<()>) -> Result<()> {
    let params = one();
    params[0].set_grad(Some(&floats([2])))?;
    clip(&params)
}

fn later() -> Vec<Op<f64>> {
    vec![
        op("set_lr", |&n| {
            let mut optimizer = Sgd::new(one(), SgdOpts::default());
            optimizer.set_lr(0, n);
            first(optimizer)
        }),
        op("set_momentum", |&n| {
            let mut optimizer = Adam::new(one(), AdamOpts::default());
            optimizer.set_momentum(0, n);
            first(optimizer)
        }),
        op("groups_mut", |&n| {
            let mut optimizer = Sgd::new(one(), SgdOpts::default());
            optimizer.groups_mut()[0].rule.momentum = n;
            first(optimizer)
        }),
        op("a schedule", |&n| {
            let mut optimizer = Sgd::new(one(), SgdOpts::default());
            Scheduler::new(&mut optimizer, StepDecay { every: 1, factor: n }).step(&mut optimizer);
            first(optimizer)
        }),
        op("the most of a cycle", |&n| {
            let mut optimizer = Sgd::new(one(), SgdOpts::default());
            Scheduler::new(&mut optimizer, OneCycle::new(n, 10));
            first(optimizer)
        }),
        op("the growing share of a cycle", |&n| {
            let mut optimizer = Sgd::new(one(), SgdOpts::default());
            let growing = n;
            Scheduler::new(&mut optimizer, OneCycle { growing, ..OneCycle::new(0.1, 10) });
            first(optimizer)
        }),
    ]
}

fn shares() -> Vec<Op<f64>> {
    vec![
        op("first beta of Adam", |&n| first(Adam::new(one(), AdamOpts::default().betas((n, 0.9))))),
        op("second beta of Adam", |&n| first(Adam::new(one(), AdamOpts::default().betas((0.9, n))))),
        op("first beta of AdamW", |&n| first(AdamW::new(one(), AdamWOpts::default().betas((n, 0.9))))),
        op("second beta of AdamW", |&n| first(AdamW::new(one(), AdamWOpts::default().betas((0.9, n))))),
        op("first beta of Lion", |&n| first(Lion::new(one(), LionOpts::default().betas((n, 0.9))))),
        op("second beta of Lion", |&n| first(Lion::new(one(), LionOpts::default().betas((0.9, n))))),
        op("a plateau's factor", |&n| {
            let mut optimizer = Sgd::new(one(), SgdOpts::default());
            let mut plateau = Plateau::default();
            (plateau.factor, plateau.patience) = (n, 0);
            (0..2).for_each(|_| plateau.step(1.0, &mut optimizer));
            first(optimizer)
        }),
    ]
}

fn loaders(tally: &mut Tally) {
    let items = || Items::new(8, |i| Ok(i as f32));
    let opts = LoaderOpts::default;
    tally.row("a batch of none", || DataLoader::new(items(), opts().batch_size(0)).map(|_| ()));
    for workers in [1025, 1 << 40, usize::MAX] {
        tally.row("workers", || DataLoader::new(items(), opts().workers(workers)).map(|_| ()));
    }
    tally.row("rows of different numbers", || kiln::data::Rows::new((floats([3]), floats([4]))).map(|_| ()));
    tally.row("a row of nothing", || kiln::data::Rows::new(floats([1]).i(0)).map(|_| ()));
}
