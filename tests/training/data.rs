//! Loaders: which batches come, in which order, and what happens when one
//! cannot be made.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use kiln::data::{Batch, DataLoader, Dataset, Items, LoadError, LoaderOpts, Rows};
use kiln::prelude::*;
use kiln::{Context, Error, with_context};

fn numbers(len: usize, opts: LoaderOpts) -> DataLoader<impl Dataset<Batch = Tensor> + 'static> {
    DataLoader::new(Items::new(len, |i| Ok(i as i64)), opts).unwrap()
}

fn epoch<D: Dataset<Batch = Tensor> + 'static>(loader: &DataLoader<D>, epoch: u64) -> Vec<Vec<i64>> {
    loader.epoch(epoch).map(|batch| batch.unwrap().to_vec().unwrap()).collect()
}

#[test]
fn batches_come_in_order_whoever_makes_them() {
    for workers in [0, 1, 3] {
        for prefetch in [0, 1, 5] {
            let opts = LoaderOpts::default().batch_size(3).workers(workers).prefetch(prefetch);
            let loader = numbers(8, opts.clone());
            assert_eq!(epoch(&loader, 0), [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]);
            assert_eq!((loader.len(), loader.epoch(0).len()), (3, 3));
            let whole = numbers(8, opts.drop_last(true));
            assert_eq!(epoch(&whole, 0), [vec![0, 1, 2], vec![3, 4, 5]]);
        }
    }
    assert!(epoch(&numbers(0, LoaderOpts::default()), 0).is_empty());
    let zero = DataLoader::new(Items::new(1, |i| Ok(i as f32)), LoaderOpts::default().batch_size(0));
    assert!(zero.unwrap_err().to_string().contains("a batch size of at least 1"));
}

#[test]
fn an_order_follows_from_seed_and_epoch() {
    let opts = || LoaderOpts::default().batch_size(7).shuffle(true).workers(2);
    let (loader, same) = (numbers(50, opts()), numbers(50, opts().workers(0)));
    let first = epoch(&loader, 0);
    assert_eq!(first, epoch(&loader, 0));
    assert_eq!(first, epoch(&same, 0));
    assert_ne!(first, epoch(&loader, 1));
    assert_ne!(first, epoch(&numbers(50, opts().seed(1)), 0));
    let mut all = first.concat();
    assert_ne!(all, (0..50).collect::<Vec<_>>());
    all.sort_unstable();
    assert_eq!(all, (0..50).collect::<Vec<_>>());
    let rest: Vec<Vec<i64>> = loader.epoch_from(0, 5).map(|b| b.unwrap().to_vec().unwrap()).collect();
    assert_eq!(rest, first[5..]);
}

#[test]
fn random_tensors_of_a_batch_do_not_depend_on_the_threads() {
    let draws = |workers| {
        let data = Items::new(6, |_| Ok(Tensor::rand([2], ())));
        let opts = LoaderOpts::default().batch_size(2).workers(workers);
        let loader = DataLoader::new(data, opts).unwrap();
        let batches = [0, 1].map(|epoch| loader.epoch(epoch).map(|b| b.unwrap().to_vec::<f32>().unwrap()));
        batches.into_iter().flatten().collect::<Vec<_>>()
    };
    kiln::manual_seed(4);
    let expected = Tensor::rand([1], ()).item::<f32>().unwrap();
    kiln::manual_seed(4);
    let own = draws(0);
    assert_eq!(Tensor::rand([1], ()).item::<f32>().unwrap(), expected, "the caller's generator stays");
    assert_eq!(own, draws(3));
    assert!((1..own.len()).all(|i| own[i] != own[0]));
}

#[test]
fn tuples_vectors_and_rows_are_stacked_and_moved() {
    let data = Items::new(4, |i| {
        Ok((Tensor::full([2], i as f64, ()).to_dtype(DType::F32), (i as f32 / 2.0, i % 2 == 0)))
    });
    let loader = DataLoader::new(data, LoaderOpts::default().batch_size(3)).unwrap();
    let (images, (halves, even)) = loader.epoch(0).next().unwrap().unwrap();
    assert_eq!(images.to_vec::<f32>().unwrap(), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
    assert_eq!((halves.to_vec::<f32>().unwrap(), even.dtype()), (vec![0.0, 0.5, 1.0], DType::Bool));
    let (moved, list) = ((images, halves), vec![Some(even), None]).to(Device::null());
    assert!([&moved.0, &moved.1, list[0].as_ref().unwrap()].iter().all(|t| t.device() == Device::null()));

    let x = Tensor::arange(0, 10, 1, ()).reshape([5, 2]);
    let rows = Rows::new((x.clone(), Tensor::arange(0, 5, 1, ()))).unwrap();
    let loader = DataLoader::new(rows, LoaderOpts::default().batch_size(2).shuffle(true)).unwrap();
    for batch in loader.epoch(0) {
        let (x, y) = batch.unwrap();
        assert!(x.is_realized() && y.is_realized());
        assert_eq!(x.i((.., 0)).to_vec::<i64>().unwrap(), (&y * 2).to_vec::<i64>().unwrap());
    }
    let error = Rows::new((x, Tensor::ones([4], ()))).unwrap_err().to_string();
    assert!(error.contains("[5, 2], [4]") && error.contains("data.rs"), "{error}");
}

#[test]
fn errors_and_panics_take_the_place_of_their_batch() {
    let data = Items::new(5, |i| match i {
        1 => Err("no such picture".into()),
        2 => panic!("sample {i} is cursed"),
        3 => Ok(Tensor::ones([2], ()) + Tensor::ones([3], ())),
        _ => Ok(Tensor::ones([2], ())),
    });
    for workers in [0, 2] {
        let loader = DataLoader::new(data.clone(), LoaderOpts::default().workers(workers)).unwrap();
        let (batches, line): (Vec<_>, u32) = (loader.epoch(0).collect(), line!());
        assert!(batches[0].is_ok() && batches[4].is_ok());
        let text = |i: usize| batches[i].as_ref().unwrap_err().to_string();
        let line = format!("\n  at {}:{line}", file!());
        assert_eq!(text(1), format!("batch 1 could not be made: no such picture{line}"));
        assert_eq!(text(2), format!("batch 2 could not be made: panicked: sample 2 is cursed{line}"));
        assert!(matches!(batches[3], Err(Error::Op(_))), "{}", text(3));
    }
}

/// Counts the batches begun.
struct Counting(Arc<AtomicUsize>);

impl Dataset for Counting {
    type Batch = Tensor;
    fn len(&self) -> usize {
        1000
    }
    fn batch(&self, numbers: &[usize]) -> Result<Tensor, LoadError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Tensor::full([1], numbers[0] as i64, ()))
    }
}

#[test]
fn a_loader_that_is_dropped_early_ends_its_threads() {
    let begun = Arc::new(AtomicUsize::new(0));
    let loader =
        DataLoader::new(Counting(begun.clone()), LoaderOpts::default().workers(3).prefetch(4)).unwrap();
    let mut batches = loader.epoch(0);
    for i in 0..5 {
        assert_eq!(batches.next().unwrap().unwrap().item::<i64>().unwrap(), i);
    }
    drop(batches);
    let count = begun.load(Ordering::SeqCst);
    assert!((5..=9).contains(&count), "{count} batches were begun for 5, 4 ahead");
    // The threads held the dataset; now the loader alone does.
    drop(loader);
    assert_eq!(Arc::strong_count(&begun), 1);
}

#[test]
fn a_drop_waits_for_the_batch_being_made() {
    let (started, wait) = mpsc::channel();
    let finished = Arc::new(AtomicUsize::new(0));
    let done = finished.clone();
    let data = Items::new(1, move |_| {
        started.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        done.fetch_add(1, Ordering::SeqCst);
        Ok(1f32)
    });
    let batches = DataLoader::new(data, LoaderOpts::default()).unwrap().epoch(0);
    wait.recv().unwrap();
    drop(batches);
    assert_eq!(finished.load(Ordering::SeqCst), 1);
}

#[test]
fn workers_have_the_callers_scopes() {
    let context = Context::new();
    let tracked = Tensor::ones([1], ()).with_requires_grad();
    let data = Items::new(1, move |_| Ok((Tensor::ones([1], ()) + 1.0, &tracked * 2.0)));
    let loader = DataLoader::new(data, LoaderOpts::default()).unwrap();
    let (made, product) = with_context(&context, || {
        let _no_grad = kiln::no_grad();
        with_device(Device::null(), || loader.epoch(0).next().unwrap()).unwrap()
    });
    assert_eq!(made.device(), Device::null());
    assert!(!product.is_tracked());
    assert!(context.counters().kernels_launched > 0);
}

#[test]
fn pinned_batches_are_the_same_batches() {
    let data = || Items::new(10, |i| Ok((Tensor::full([3], i as f64, ()), i as i64)));
    let batches = |opts: LoaderOpts| -> Vec<(Tensor, Tensor)> {
        let loader = DataLoader::new(data(), opts.batch_size(4)).unwrap();
        loader.epoch(0).collect::<kiln::Result<_>>().unwrap()
    };
    for workers in [0, 2] {
        let opts = || LoaderOpts::default().workers(workers);
        let (plain, pinned) = (batches(opts()), batches(opts().pin_memory(true)));
        for ((x, i), (pinned_x, pinned_i)) in plain.iter().zip(&pinned) {
            assert!(!x.is_pinned() && pinned_x.is_pinned() && pinned_i.is_pinned());
            assert_eq!(x.to_vec::<f32>().unwrap(), pinned_x.to_vec::<f32>().unwrap());
            assert_eq!(i.to_vec::<i64>().unwrap(), pinned_i.to_vec::<i64>().unwrap());
        }
    }
}

#[test]
fn depths_and_lengths_beyond_number_are_as_far_as_there_are_batches() {
    let opts = LoaderOpts::default().batch_size(2).prefetch(usize::MAX).workers(3);
    assert_eq!(epoch(&numbers(5, opts), 0), [vec![0, 1], vec![2, 3], vec![4]]);
    let whole = LoaderOpts::default().batch_size(usize::MAX).workers(0);
    assert_eq!(epoch(&numbers(3, whole), 0), [vec![0, 1, 2]]);
    for shuffle in [false, true] {
        let loader = numbers(1 << 40, LoaderOpts::default().batch_size(2).shuffle(shuffle));
        assert_eq!(loader.len(), 1 << 39);
        let mut batches = loader.epoch_from(0, 1 << 38);
        let batch = batches.next().unwrap().unwrap().to_vec::<i64>().unwrap();
        assert!(shuffle || batch == [1 << 39, (1 << 39) + 1], "{batch:?}");
        assert!(batch.iter().all(|number| (0..1 << 40).contains(number)), "{batch:?}");
    }
    let loader = numbers(1 << 60, LoaderOpts::default().batch_size(1 << 60).workers(0));
    let error = loader.epoch(0).next().unwrap().unwrap_err();
    assert!(matches!(error, Error::Data { batch: 0, .. }), "{error}");
}
