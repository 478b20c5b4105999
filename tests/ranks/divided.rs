//! Models of which each rank holds a part: they take the steps of one that is whole.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln::data::{DataLoader, LoaderOpts, Rows};
use kiln::dist::{ColumnParallel, Ddp, Group, Mesh, RowParallel, VocabularyParallel};
use kiln::nn::{Embedding, Layer, LayerNorm, Linear, Module, ModuleExt, Param, Sequential};
use kiln::optim::{Adam, AdamOpts, GradScaler, Optimizer, Sgd, SgdOpts, clip_grad_norm};
use kiln::prelude::*;
use kiln::train::{Checkpoints, Record, Trainer, TrainerOpts};
use kiln::{Context, Result, manual_seed, with_context};

use crate::ddp::{close, ranks};

/// The layers of a model that is to be divided, the same wherever they are made.
fn layers() -> (Embedding, LayerNorm, Linear, Linear) {
    manual_seed(11);
    (Embedding::new(8, 12, ()), LayerNorm::new(12, ()), Linear::new(12, 16, ()), Linear::new(16, 4, ()))
}

fn whole() -> Sequential {
    let (table, norm, up, down) = layers();
    Sequential::new().push(table).push(norm).push(up).then(Tensor::gelu).push(down)
}

fn divided(group: &Group) -> Result<Sequential> {
    let (table, norm, up, down) = layers();
    let model = Sequential::new().push(VocabularyParallel::new(&table, group)?).push(norm);
    let (up, down) = (ColumnParallel::new(&up, group)?, RowParallel::new(&down, group)?);
    Ok(model.push(up).then(Tensor::gelu).push(down))
}

/// The loss of a step on tokens that a rank of the data axis sees.
fn loss(model: &Sequential, step: usize, rows: Range<usize>) -> Tensor {
    let token = |row: usize| ((step * 5 + row * 3) % 8) as i64;
    let tokens = Tensor::from_vec(rows.clone().map(token).collect(), [rows.len()], ());
    let classes = Tensor::from_vec(rows.clone().map(|row| token(row) % 4).collect(), [rows.len()], ());
    model.forward(&tokens).cross_entropy(&classes, Default::default())
}

/// Losses of a few steps.
fn steps(model: &Sequential, params: Vec<Param>, rows: Range<usize>) -> Result<Vec<f32>> {
    let mut optimizer = Sgd::new(params, SgdOpts::default().lr(0.3));
    let step = |step: usize| {
        optimizer.zero_grad();
        let loss = loss(model, step, rows.clone());
        loss.backward()?;
        optimizer.step()?;
        loss.item::<f32>()
    };
    (0..20).map(step).collect()
}

#[test]
fn a_model_divided_among_ranks_takes_the_steps_of_one() {
    let alone = with_context(&Context::new(), || {
        let model = whole();
        steps(&model, model.parameters(), 0..8).unwrap()
    });
    assert!(alone[19] < 0.5 * alone[0], "it learns");
    for count in [2, 4] {
        let found = ranks(count, |group| {
            let model = divided(group)?;
            steps(&model, model.parameters(), 0..8)
        });
        assert!(found.iter().all(|losses| *losses == found[0]), "{found:?}");
        close(&found[0], &alone, 1e-4);
    }
    // Two by two: along one axis of the mesh other data, along the other other parts of the model.
    let found = ranks(4, |group| {
        let mesh = Mesh::new(group, &[("data", 2), ("model", 2)])?;
        let data = mesh.group("data")?;
        let model = Ddp::new(divided(mesh.group("model")?)?, data, ())?;
        steps(model.module(), model.parameters(), data.rank() * 4..data.rank() * 4 + 4)
    });
    let mean: Vec<f32> = found[0].iter().zip(&found[2]).map(|(a, b)| (a + b) / 2.0).collect();
    close(&mean, &alone, 1e-4);
}

/// Norms of the gradients of some steps clipped to a tenth, and the parameters after them by name.
type Clipped = (Vec<f32>, BTreeMap<String, Tensor>);

fn clipped(
    model: &impl Module,
    mut optimizer: impl Optimizer,
    loss: &dyn Fn(usize) -> Tensor,
) -> Result<Clipped> {
    let mut norms = Vec::new();
    for step in 0..5 {
        optimizer.zero_grad();
        loss(step).backward()?;
        let norm = clip_grad_norm(&model.parameters(), 0.1)?;
        optimizer.step()?;
        assert!(norm.plan()?.kernels.is_empty(), "the step computes it");
        norms.push(norm);
    }
    let params = model.named_parameters().into_iter();
    let params = params.map(|(name, param)| Ok((name, param.get().realize()?.clone())));
    Ok((norms.iter().map(Tensor::item::<f32>).collect::<Result<_>>()?, params.collect::<Result<_>>()?))
}

/// The part of a parameter that is like another one's.
fn part(whole: &Tensor, like: &Tensor, rank: usize) -> Tensor {
    let axis = (0..whole.rank()).find(|&axis| whole.shape()[axis] != like.shape()[axis]);
    axis.map_or_else(
        || whole.clone(),
        |axis| whole.narrow(axis as i64, (rank * like.shape()[axis]) as i64, like.shape()[axis]),
    )
}

#[track_caller]
fn same_steps((norms, params): &Clipped, (expected_norms, expected): &Clipped, rank: usize) {
    assert!(expected_norms.iter().all(|&norm| norm > 0.1), "all are clipped: {expected_norms:?}");
    close(norms, expected_norms, 1e-4);
    for (name, param) in params {
        let values = |x: &Tensor| x.to_vec::<f32>().expect("numbers");
        close(&values(param), &values(&part(&expected[name], param, rank)), 1e-3);
    }
}

#[test]
fn clipped_steps_of_a_divided_model_are_by_the_norm_of_all_of_it() {
    let sgd = |params| Sgd::new(params, SgdOpts::default().lr(0.3).momentum(0.9));
    let adam = |params| Adam::new(params, AdamOpts::default().eps(1e-2));
    let alone = |adaptive: bool| {
        with_context(&Context::new(), || {
            let model = whole();
            let loss = |step| loss(&model, step, 0..8);
            match adaptive {
                true => clipped(&model, adam(model.parameters()), &loss).unwrap(),
                false => clipped(&model, sgd(model.parameters()), &loss).unwrap(),
            }
        })
    };
    let expected = alone(false);
    for count in [2, 4] {
        let found = ranks(count, |group| {
            let model = divided(group)?;
            clipped(&model, sgd(model.parameters()), &|step| loss(&model, step, 0..8))
        });
        for (rank, found) in found.iter().enumerate() {
            same_steps(found, &expected, rank);
        }
    }
    // Beside other data on other ranks, which divide the optimizer's state too.
    let found = ranks(4, |group| {
        let mesh = Mesh::new(group, &[("data", 2), ("model", 2)])?;
        let data = mesh.group("data")?;
        let rows = data.rank() * 4..data.rank() * 4 + 4;
        let model = Ddp::new(divided(mesh.group("model")?)?, data, ())?;
        let optimizer = adam(model.parameters()).divided_among(data);
        clipped(&model, optimizer, &|step| loss(model.module(), step, rows.clone()))
    });
    let expected = alone(true);
    for (rank, found) in found.iter().enumerate() {
        same_steps(found, &expected, rank % 2);
    }
}

/// A part of a divided parameter and a whole one, with gradients.
fn parameters(group: &Group, own: Option<f32>) -> Result<[Param; 2]> {
    let params =
        [Param::new(Tensor::zeros([2], ())).divided_among(group), Param::new(Tensor::zeros([3], ()))];
    params[0].set_grad(own.map(|own| Tensor::full([2], own, ())).as_ref())?;
    params[1].set_grad(Some(&Tensor::full([3], 2.0, ())))?;
    Ok(params)
}

#[test]
fn an_overflow_in_a_part_skips_the_step_on_all_ranks_that_divide_the_model() {
    let found = ranks(4, |group| {
        let model = Mesh::new(group, &[("data", 2), ("model", 2)])?.group("model")?.clone();
        let own = if group.rank() == 1 { f32::INFINITY } else { 1.0 };
        let params = parameters(&model, Some(own))?;
        let mut optimizer = Sgd::new(params.clone(), SgdOpts::default().lr(1.0));
        let mut scaler = GradScaler::new(());
        scaler.step(&mut optimizer)?;
        scaler.update()?;
        let moved = params[1].get().abs().max(..).item::<f32>()? > 0.0;
        Ok((scaler.skipped().item::<bool>()?, moved, scaler.get_scale()?))
    });
    assert_eq!(found[..2], [(true, false, 32768.0); 2]);
    assert_eq!(found[2..], [(false, true, 65536.0); 2], "other models go on");
}

#[test]
fn a_rank_whose_part_has_no_gradient_counts_as_zero() {
    let found = ranks(2, |group| {
        let params = parameters(group, (group.rank() == 0).then_some(1.0))?;
        clip_grad_norm(&params, 100.0)?.item::<f32>()
    });
    assert_eq!(found, [14f32.sqrt(); 2]);
}

#[test]
fn what_does_not_divide_among_ranks_is_an_error() {
    let found = ranks(3, |group| {
        let (table, _, up, down) = layers();
        let column = ColumnParallel::new(&up, group).unwrap_err().to_string();
        let row = RowParallel::new(&down, group).unwrap_err().to_string();
        let table = VocabularyParallel::new(&table, group).unwrap_err().to_string();
        Ok([column, row, table])
    });
    let expected =
        "ColumnParallel::new: expected a weight whose axis 0 divides among 3 ranks, found [16, 12]";
    assert!(found[0][0].starts_with(expected), "{}", found[0][0]);
    assert!(found.iter().flatten().all(|error| error.contains("divides among 3 ranks")));
}

#[test]
fn parts_of_a_model_are_not_averaged() {
    let found = ranks(2, |group| {
        let model = divided(group)?;
        let table = model.parameters().remove(0);
        let before = table.get().to_vec::<f32>()?;
        // The ranks that divide the model, where those that have the same parts are meant.
        let error = Ddp::new(model, group, ()).unwrap_err().to_string();
        assert_eq!(table.get().to_vec::<f32>()?, before);
        Ok(error)
    });
    for error in found {
        assert!(error.contains("0.weight f32[4, 12], part 0 of 2"), "{error}");
        assert!(error.contains("0.weight f32[4, 12], part 1 of 2"), "{error}");
    }
}

/// Trains a divided model on a mesh in a folder until some epoch, from where it was before. Its own part, and who
/// logged.
#[cfg(feature = "safetensors")]
fn trained(mesh: &Mesh, folder: &std::path::Path, epochs: u64) -> Result<(Vec<f32>, bool)> {
    let rows: Vec<i64> = (0..16).collect();
    let (tokens, classes) = (rows.iter().map(|row| row * 3 % 8), rows.iter().map(|row| row % 4));
    let (tokens, classes): (Vec<i64>, Vec<i64>) = (tokens.collect(), classes.collect());
    let rows = Rows::new((Tensor::from_vec(tokens, [16], ()), Tensor::from_vec(classes, [16], ())))?;
    let loader = DataLoader::new(rows, LoaderOpts::default().batch_size(4).shuffle(true))?;
    manual_seed(3);
    let model = divided(mesh.group("model")?)?;
    let optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(0.05));
    let forward =
        |model: &Sequential, (x, y): &(Tensor, Tensor)| model.forward(x).cross_entropy(y, Default::default());
    let has_logged = Arc::new(AtomicBool::new(false));
    let log = has_logged.clone();
    let trainer =
        Trainer::new(model, optimizer, forward, TrainerOpts::default().epochs(epochs).clip_norm(0.5));
    let trainer = trainer.checkpoints(Checkpoints::new(folder)).ranks(mesh.group("data")?, ())?;
    let mut trainer = trainer.log_to(move |_: &Record| {
        log.store(true, Ordering::Relaxed);
        Ok(())
    });
    trainer.resume()?;
    trainer.fit(&loader)?;
    let parts = trainer.model().parameters().into_iter().map(|param| param.get().to_vec::<f32>());
    Ok((parts.collect::<Result<Vec<_>>>()?.concat(), has_logged.load(Ordering::Relaxed)))
}

#[cfg(feature = "safetensors")]
#[test]
fn a_trainer_saves_each_part_and_resumes_with_it() {
    let folder = std::env::temp_dir().join(format!("kiln-parts-{}", std::process::id()));
    let found = ranks(4, |group| {
        let mesh = Mesh::new(group, &[("data", 2), ("model", 2)])?;
        let whole = trained(&mesh, &folder.join("whole"), 3)?;
        trained(&mesh, &folder.join("resumed"), 1)?;
        Ok((whole, trained(&mesh, &folder.join("resumed"), 3)?))
    });
    for (rank, ((whole, logs), (resumed, _))) in found.iter().enumerate() {
        assert_eq!(whole, resumed, "rank {rank}");
        assert_eq!(*logs, rank == 0, "rank {rank} logs");
    }
    assert_ne!(found[0].0.0, found[1].0.0, "parts differ");
    let names = std::fs::read_dir(folder.join("resumed")).expect("a folder");
    let mut names: Vec<String> =
        names.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names, [0, 1].map(|part| format!("step-00000006-part-{part}-of-2.safetensors")));
    std::fs::remove_dir_all(folder).expect("the folder is mine");
}
