//! The trainer: its steps are those of a loop written by hand, a run that is stopped and resumed is one that is
//! not, and metrics are what their definitions say.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use kiln::data::{DataLoader, Items, LoadError, LoaderOpts};
use kiln::dist::{self, SpawnOpts};
use kiln::nn::{BatchNorm, Dropout, Layer, Linear, Module, ModuleExt, Sequential};
use kiln::optim::{Adam, AdamOpts, Cosine, Optimizer, clip_grad_norm};
use kiln::prelude::*;
use kiln::train::{
    Accuracy, BatchSource, Checkpoints, ConfusionMatrix, CsvLog, EarlyStop, Ended, Every, F1, Goal, JsonLog,
    Metric, Output, Perplexity, Phase, Record, Report, StopFlag, Summary, Trainer, TrainerOpts,
};
use kiln::{Context, Result, manual_seed, with_context};

pub type Batch = (Tensor, Tensor);

fn sample(i: usize) -> Result<(Tensor, i64), LoadError> {
    let x = |k: usize| ((i * 31 + k * 7) % 17) as f32 / 8.0 - 1.0;
    let row: Vec<f32> = (0..6).map(x).collect();
    let class = i64::from(row[0] + row[1] > row[2]) + i64::from(row[3] > 0.5);
    Ok((Tensor::from_vec(row, [6], Device::cpu()), class))
}

pub fn loader(samples: usize) -> DataLoader<impl kiln::data::Dataset<Batch = Batch> + 'static> {
    let opts = LoaderOpts::default().batch_size(8).shuffle(true).seed(3);
    DataLoader::new(Items::new(samples, sample), opts).expect("options that make sense")
}

/// With everything that keeps a state of its own.
fn network() -> Sequential {
    manual_seed(7);
    Sequential::new()
        .push(Linear::new(6, 16, ()))
        .push(BatchNorm::new(16, ()))
        .then(Tensor::relu)
        .push(Dropout::new(0.2))
        .push(Linear::new(16, 3, ()))
}

fn forward(model: &Sequential, (x, y): &Batch) -> (Tensor, Tensor, Tensor) {
    let scores = model.forward(x);
    (scores.cross_entropy(y, Default::default()), scores, y.clone())
}

pub fn trainer<'a>(opts: TrainerOpts) -> Trainer<'a, Sequential, Batch> {
    let model = network();
    let optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(0.01));
    Trainer::new(model, optimizer, forward, opts)
}

fn bits(model: &impl Module) -> Vec<u32> {
    let state = model.state_dict().expect("a state");
    let values = state.iter().map(|(_, x)| x.to_dtype(DType::F32).to_vec::<f32>().expect("values"));
    values.flatten().map(f32::to_bits).collect()
}

pub fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("kiln-train-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

pub fn alone<R>(body: impl FnOnce() -> R) -> R {
    with_context(&Context::new(), body)
}

/// The losses of single steps.
fn recording<'a>(
    trainer: Trainer<'a, Sequential, Batch>,
    losses: &'a RefCell<Vec<u32>>,
) -> Trainer<'a, Sequential, Batch> {
    trainer.on_step(|event| {
        losses.borrow_mut().push(event.loss.item::<f32>()?.to_bits());
        Ok(())
    })
}

#[test]
fn its_steps_are_those_of_a_loop_by_hand_and_wait_no_more() {
    let counted = |train: &dyn Fn(&Context) -> (Vec<u32>, u64)| {
        let context = Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)]);
        let ((bits, waits), plans) = with_context(&context, || {
            let found = train(&context);
            (found, context.counters().plans_built)
        });
        (bits, waits, plans)
    };
    let device: Device = "cpu:1".parse().unwrap();
    let by_hand = counted(&|context| {
        let model = with_device(device, network);
        let mut optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(0.01));
        let before = context.counters().host_waits;
        for epoch in 0..3 {
            for batch in loader(40).epoch(epoch) {
                let batch = kiln::data::Batch::to(&batch.unwrap(), device);
                optimizer.zero_grad();
                let loss = forward(&model, &batch).0;
                loss.backward().unwrap();
                let _norm = clip_grad_norm(&model.parameters(), 0.5).unwrap();
                optimizer.step().unwrap();
            }
        }
        let waits = context.counters().host_waits - before;
        (bits(&model), waits)
    });
    let trained = counted(&|context| {
        let opts = TrainerOpts::default().epochs(3).clip_norm(0.5).log_every(0);
        let mut trainer = with_device(device, || trainer(opts));
        let before = context.counters().host_waits;
        trainer.fit(&loader(40)).unwrap();
        let waits = context.counters().host_waits - before;
        (bits(trainer.model()), waits)
    });
    assert!(by_hand.0 == trained.0, "other parameters");
    // The mean loss and the gradients' norm, once an epoch.
    assert_eq!(trained.1 - by_hand.1, 6, "waits");
    assert!(trained.2 <= by_hand.2 + 2, "{} plans, {} by hand", trained.2, by_hand.2);
}

#[test]
fn a_run_that_is_stopped_and_resumed_is_the_one_that_is_not() {
    for (accumulate, mixed) in [(1, None), (2, Some(DType::F16))] {
        let folder = folder("resumed");
        let mut opts = TrainerOpts::default().epochs(4).log_every(5).accumulate(accumulate).clip_norm(1.0);
        opts.autocast = mixed;
        // The scale grows, and overflows now and then.
        opts.scaler = opts.scaler.clone().init_scale(2f64.powi(23)).growth_interval(1);
        let records = RefCell::new(Vec::new());
        let log = |record: &Record| {
            let numbers: Vec<u64> = record.scores.values.iter().map(|(_, value)| value.to_bits()).collect();
            records.borrow_mut().push((record.phase, record.epoch, record.step, numbers));
            Ok(())
        };
        let make = |losses| {
            let trainer = trainer(opts.clone()).schedule(Cosine { steps: 24, floor: 1e-4 }).metric(Accuracy);
            recording(trainer, losses).validate_on(loader(24)).log_to(log)
        };
        let losses = RefCell::new(Vec::new());
        let whole = alone(|| {
            let mut trainer = make(&losses);
            let summary = trainer.fit(&loader(44)).unwrap();
            assert_eq!((summary.ended, summary.epochs), (Ended::Done, 4));
            bits(trainer.model())
        });
        let (expected, all_records) = (losses.take(), records.take());
        // Stopped in the middle of an epoch, at its end, and once again.
        let parts: Vec<u64> = [2, 4, 5, 6, 8, 9].into_iter().chain([u64::MAX]).collect();
        let mut resumed = Vec::new();
        for (at, stop_at) in parts.into_iter().enumerate() {
            alone(|| {
                let flag = StopFlag::default();
                let checkpoints = Checkpoints::new(&folder).every(Every::Steps(0));
                let mut trainer = make(&losses).checkpoints(checkpoints).stop_flag(&flag).on_step(|event| {
                    if event.step == stop_at {
                        flag.set();
                    }
                    Ok(())
                });
                // Another's random numbers.
                manual_seed(1000 + at as u64);
                assert_eq!(trainer.resume().unwrap(), at > 0);
                if at == 0 {
                    manual_seed(7);
                    network(); // draws what the other run has drawn
                }
                let summary = trainer.fit(&loader(44)).unwrap();
                assert_eq!(summary.ended, if stop_at == u64::MAX { Ended::Done } else { Ended::Stopped });
                resumed = bits(trainer.model());
            });
        }
        assert_eq!(losses.take(), expected, "losses");
        assert!(resumed == whole, "other parameters");
        assert_eq!(records.take(), all_records, "records");
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_step_of_several_batches_is_that_of_their_mean() {
    let trained = |accumulate: usize, batch: usize| {
        alone(|| {
            manual_seed(1);
            let model = Linear::new(6, 3, ());
            let optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(0.01));
            let forward =
                |model: &Linear, (x, y): &Batch| model.forward(x).cross_entropy(y, Default::default());
            let opts = TrainerOpts::default().epochs(2).accumulate(accumulate);
            let mut trainer = Trainer::new(model, optimizer, forward, opts);
            let loader = DataLoader::new(Items::new(40, sample), LoaderOpts::default().batch_size(batch));
            let summary = trainer.fit(&loader.unwrap()).unwrap();
            // The last step of an epoch has fewer batches: 40 = 16 + 16 + 8.
            assert_eq!(summary.steps, 6);
            trainer.model().weight.get().to_vec::<f32>().unwrap()
        })
    };
    let (one, several) = (trained(1, 16), trained(2, 8));
    assert!(one.iter().zip(&several).all(|(a, b)| (a - b).abs() < 1e-5), "{one:?} {several:?}");
}

#[test]
fn ranks_train_as_one_process_and_agree_on_scores() {
    let run = |group: Option<&dist::Group>, batch: usize| -> Result<(Summary, Vec<u32>)> {
        manual_seed(7);
        let model =
            Sequential::new().push(Linear::new(6, 8, ())).then(Tensor::tanh).push(Linear::new(8, 3, ()));
        let optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(0.01));
        let mut trainer =
            Trainer::new(model, optimizer, forward, TrainerOpts::default().epochs(3).log_every(2));
        if let Some(group) = group {
            trainer = trainer.ranks(group, ())?;
        }
        let opts = LoaderOpts::default().batch_size(batch);
        // 25 samples do not divide among the ranks.
        let mut trainer =
            trainer.metric(F1::new(3)).validate_on(DataLoader::new(Items::new(25, sample), opts.clone())?);
        let summary = trainer.fit(&DataLoader::new(Items::new(48, sample), opts)?)?;
        Ok((summary, bits(trainer.model())))
    };
    let one = alone(|| run(None, 16).unwrap());
    let opts = SpawnOpts::default().timeout(Duration::from_secs(60));
    let ranks = alone(|| dist::spawn_with(2, opts, |group| run(Some(&group), 8)).unwrap());
    assert!(ranks[0].1 == ranks[1].1, "other parameters");
    assert_eq!(ranks[0].0.scores, ranks[1].0.scores);
    let loss = |summary: &Summary| summary.loss.unwrap();
    assert!((loss(&ranks[0].0) - loss(&one.0)).abs() < 1e-5);
    let (found, expected) = (ranks[0].0.scores.clone().unwrap(), one.0.scores.unwrap());
    assert!((found.get("loss").unwrap() - expected.get("loss").unwrap()).abs() < 1e-5);
    assert_eq!(found.sums, expected.sums, "every sample counts once");
}

#[test]
fn ranks_stop_and_resume_together() {
    let folder = folder("ranks");
    let run = |ranks: usize, stops: bool| {
        let opts = SpawnOpts::default().timeout(Duration::from_secs(60));
        alone(|| {
            dist::spawn_with(ranks, opts, |group| {
                let flag = StopFlag::default();
                let mut trainer = trainer(TrainerOpts::default().epochs(2).log_every(2))
                    .ranks(&group, ())?
                    .checkpoints(Checkpoints::new(&folder))
                    .stop_flag(&flag)
                    .on_step(|event| {
                        // One rank is told.
                        if stops && event.step == 1 && group.rank() == 1 {
                            flag.set();
                        }
                        Ok(())
                    });
                trainer.resume()?;
                let before = format!("{trainer:?}");
                let summary = trainer.fit(&loader(64))?;
                Ok((before, summary.ended, summary.steps, bits(trainer.model())))
            })
            .unwrap()
        })
    };
    let stopped = run(2, true);
    assert!(stopped.iter().all(|rank| (rank.1, rank.2) == (Ended::Stopped, 2)), "{stopped:?}");
    // On four ranks, an epoch has half as many batches each: one of two is done.
    let resumed = run(4, false);
    assert!(
        resumed.iter().all(|rank| rank.0 == "Trainer(kiln::nn::sequential::Sequential, epoch 0, step 2)")
    );
    assert!(resumed.iter().all(|rank| (rank.1, rank.2) == (Ended::Done, 2 + 1 + 2)), "{resumed:?}");
    assert!(resumed.iter().all(|rank| rank.3 == resumed[0].3), "other parameters");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn metrics_are_what_their_definitions_say() {
    // Targets 0 0 1 1 2, said 0 1 1 1 0: class 2 is never said, class 3 not there.
    let said = Tensor::from([0i64, 1, 1, 1, 0]).one_hot(4).to_dtype(DType::F32);
    let output = Output::from((Tensor::full((), 0.5f32, ()), said, Tensor::from([0i64, 0, 1, 1, 2])));
    let of = |metric: &dyn Metric| {
        let sums = metric.sums(&output).to_dtype(DType::F64).reshape([-1]).to_vec::<f64>().unwrap();
        metric.value(&sums)
    };
    assert_eq!(of(&Accuracy), 3.0 / 5.0);
    assert_eq!(of(&ConfusionMatrix::new(4)), 3.0 / 5.0);
    let matrix = ConfusionMatrix::new(4).sums(&output).to_vec::<f32>().unwrap();
    assert_eq!(matrix, [1., 1., 0., 0., 0., 2., 0., 0., 1., 0., 0., 0., 0., 0., 0., 0.]);
    // F1: class 0 has 1 of (2 + 2) / 2, class 1 2 of (2 + 3) / 2, class 2 none.
    assert!((of(&F1::new(4)) - (0.5 + 0.8 + 0.0) / 3.0).abs() < 1e-12);
    assert!((of(&Perplexity) - 0.5f64.exp()).abs() < 1e-12);
    assert_eq!((Perplexity.goal(), Accuracy.goal()), (Goal::Least, Goal::Most));
}

#[test]
fn a_metric_that_gets_no_better_ends_it_and_the_best_model_is_kept() {
    let folder = folder("early");
    alone(|| {
        let report = folder.join("report.html");
        let validations = RefCell::new(Vec::new());
        let mut trainer = trainer(TrainerOpts::default().epochs(60))
            .validate_on(loader(24))
            .metric(ConfusionMatrix::new(3))
            .early_stop(EarlyStop::on("loss").patience(2).min_change(0.01))
            .checkpoints(Checkpoints::new(&folder).best("loss").keep(2))
            .log_to(Report::new(&report).title("early & <late>"))
            .log_to(CsvLog::open(folder.join("logs/log.csv")).unwrap())
            .log_to(JsonLog::open(folder.join("logs/log.jsonl")).unwrap())
            .log_to(|record: &Record| {
                if record.phase == Phase::Validation {
                    validations.borrow_mut().push(record.scores.get("loss").unwrap());
                }
                Ok(())
            });
        let summary = trainer.fit(&loader(40)).unwrap();
        assert_eq!(summary.ended, Ended::Early);
        assert!(summary.epochs < 60 && summary.epochs as usize == validations.borrow().len());
        let best = network();
        best.load(folder.join("best.safetensors"), Device::cpu()).unwrap();
        let optimizer = Adam::new(best.parameters(), AdamOpts::default());
        let found =
            Trainer::new(best, optimizer, forward, ()).evaluate(&loader(24)).unwrap().get("loss").unwrap();
        let least = validations.borrow().iter().copied().fold(f64::INFINITY, f64::min);
        assert_eq!(found, least);
        let names: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 5, "two checkpoints, the best, the report, logs: {names:?}");
        let lines = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap().lines().count() as u64;
        // Each epoch has a record of the training with two numbers, and one of the evaluation with two.
        assert_eq!(lines("logs/log.csv"), 1 + 4 * summary.epochs);
        assert_eq!(lines("logs/log.jsonl"), 2 * summary.epochs);
        let page = std::fs::read_to_string(&report).unwrap();
        for part in
            ["<h1>early &amp; &lt;late&gt;</h1>", "class=\"matrix\"", "validation, step", "ended early"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("/*"), "a part that is not filled in");
    });
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_makes_no_sense_is_an_error_before_the_first_step() {
    alone(|| {
        let message = |trainer: &mut Trainer<'_, Sequential, Batch>| {
            let error = trainer.fit(&loader(8)).unwrap_err().to_string();
            error.lines().next().unwrap().to_string()
        };
        assert_eq!(
            message(&mut trainer(TrainerOpts::default().accumulate(0))),
            "fit: expected at least one batch a step, found 0"
        );
        let mut watching = trainer(().into()).metric(Accuracy).early_stop(EarlyStop::on("acuracy"));
        assert_eq!(
            message(&mut watching),
            "fit: expected a metric that there is: accuracy, loss, found acuracy"
        );
        let mut without = trainer(().into()).early_stop(EarlyStop::on("loss"));
        assert!(message(&mut without).contains("validate_on"));
        assert!(trainer(().into()).resume().is_err());
        // A loss alone has nothing for a metric.
        let model = network();
        let optimizer = Adam::new(model.parameters(), AdamOpts::default());
        let loss = |model: &Sequential, batch: &Batch| forward(model, batch).0;
        let alone = Trainer::new(model, optimizer, loss, ()).metric(Accuracy);
        assert!(alone.evaluate(&loader(8)).unwrap_err().to_string().contains("found the loss alone"));
        // A source that ends early.
        struct Short;
        impl BatchSource<Batch> for Short {
            fn batches(&self) -> usize {
                2
            }
            fn epoch_from(&self, _: u64, _: usize) -> Box<dyn Iterator<Item = Result<Batch>> + '_> {
                Box::new(std::iter::empty())
            }
        }
        assert!(trainer(().into()).fit(&Short).unwrap_err().to_string().contains("an end after 0"));
    });
}

/// The model and the optimizer fit, and would be taken before it shows that the schedule is missing.
#[test]
fn a_state_that_does_not_fit_changes_nothing() {
    alone(|| {
        let opts = || TrainerOpts::default().epochs(1);
        let mut other = trainer(opts());
        other.fit(&loader(16)).unwrap();
        let state = other.state_dict().unwrap();
        let schedule = Cosine { steps: 10, floor: 0.0 };
        let mut own = trainer(opts()).schedule(schedule);
        let (before, numbers) = (bits(own.model()), own.state_dict().unwrap().len());
        assert!(own.load_state_dict(&state).is_err());
        assert_eq!((bits(own.model()), own.state_dict().unwrap().len()), (before, numbers));
        assert_eq!(own.fit(&loader(16)).unwrap().steps, 2);
    });
}

#[test]
fn batches_and_models_are_prepared_and_calls_come_in_order() {
    alone(|| {
        let calls = RefCell::new(String::new());
        let note = |call: &str| calls.borrow_mut().push_str(call);
        let mut trainer = trainer(TrainerOpts::default().epochs(2))
            .prepare_model(|model| {
                note("m");
                model.parameters()[0].set_requires_grad(false);
                Ok(())
            })
            .prepare_batch(|(x, y)| {
                note("b");
                (x * 2.0, y)
            })
            .on_step(|_| {
                note("s");
                Ok(())
            })
            .on_epoch(|event| {
                assert!(event.loss > 0.0);
                note("e");
                Ok(())
            })
            .on_end(|summary, _| {
                assert_eq!(summary.steps, 4);
                note("!");
                Ok(())
            });
        let frozen = trainer.model().parameters()[0].get().to_vec::<f32>().unwrap();
        trainer.fit(&loader(16)).unwrap();
        assert_eq!(trainer.model().parameters()[0].get().to_vec::<f32>().unwrap(), frozen);
        drop(trainer);
        assert_eq!(calls.into_inner(), "mbsbsebsbse!");
    });
}

/// TensorBoard's own reader is tried in `tests/tensorboard`; here, that all numbers arrive.
#[cfg(feature = "tensorboard")]
#[test]
fn records_are_curves_of_tensorboard() {
    let folder = folder("tensorboard");
    alone(|| {
        let writer = kiln::io::tensorboard::SummaryWriter::new(&folder).unwrap();
        let path = writer.path().to_path_buf();
        let mut trainer =
            trainer(TrainerOpts::default().epochs(2)).validate_on(loader(8)).metric(Accuracy).log_to(writer);
        trainer.fit(&loader(16)).unwrap();
        let bytes = std::fs::read(path).unwrap();
        let count = |tag: &str| bytes.windows(tag.len()).filter(|at| *at == tag.as_bytes()).count();
        let tags = ["loss/train", "lr/train", "loss/validation", "accuracy/validation"];
        assert_eq!(tags.map(count), [2; 4]);
    });
    std::fs::remove_dir_all(folder).unwrap();
}
