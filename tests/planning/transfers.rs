//! What crosses between devices: how often, how many bytes, and that values
//! stay the same. On devices simulated by the CPU, at the shapes named.

use std::sync::{Arc, Condvar, Mutex};

use crate::adapter;
use kiln::prelude::*;
use kiln::unstable::runtime::cpu::CpuBackend;
use kiln::unstable::schedule::TransferReason;
use kiln::{Context, Direction, Error, context, deny_sync, deny_transfers, with_context};

use crate::watched::Watched;

const GPU: Device = Device::cuda(0);
const OTHER: Device = Device::cuda(1);

fn machine() -> Arc<Context> {
    Context::with_virtual_devices(&[(DeviceKind::Cuda, 2), (DeviceKind::Cpu, 2)])
}

/// Numbers in the host's memory.
fn host<const N: usize>(dims: [usize; N]) -> Tensor {
    let count: usize = dims.iter().product();
    Tensor::from_vec((0..count).map(|i| (i % 13) as f32 - 6.0).collect(), dims, Device::cpu())
}

/// Numbers in a device's memory.
fn on<const N: usize>(device: Device, dims: [usize; N]) -> Tensor {
    let x = host(dims).to(device);
    x.realize().expect("memory for a test");
    x
}

/// The plan's transfers as direction, bytes, reason.
fn transfers(tensors: &[&Tensor]) -> Vec<(Direction, u64, TransferReason)> {
    let report = kiln::plan(tensors).expect("a plan");
    report.transfers().iter().map(|t| (t.direction, t.bytes, t.reason)).collect()
}

/// Asserts that running moves what the plan says, and gives the values.
#[track_caller]
fn runs_as_planned(tensors: &[&Tensor]) -> Vec<Vec<f32>> {
    let planned = kiln::plan(tensors).expect("a plan").bytes_transferred();
    let before = context().counters().bytes_transferred();
    realize(tensors).expect("running it");
    assert_eq!(context().counters().bytes_transferred() - before, planned);
    tensors.iter().map(|t| t.to_dtype(DType::F32).to_vec().expect("values")).collect()
}

#[test]
fn a_transfer_is_listed_with_bytes_direction_and_line() {
    with_context(&machine(), || {
        let x = host([10, 10]);
        let (y, line) = (x.to(GPU).exp().to(OTHER).sum(0).cpu(), line!());
        let report = y.plan().unwrap();
        let found: Vec<_> = report.transfers().iter().map(|t| (t.direction, t.bytes, t.from, t.to)).collect();
        let expected = [
            (Direction::ToDevice, 400, Device::cpu(), GPU),
            (Direction::BetweenDevices, 400, GPU, OTHER),
            (Direction::ToHost, 40, OTHER, Device::cpu()),
        ];
        assert_eq!(found, expected, "{report}");
        assert!(
            report.transfers().iter().all(|t| t.at.line() == line && t.reason == TransferReason::Requested)
        );
        let values = runs_as_planned(&[&y]);
        assert_eq!(values[0], x.exp().sum(0).to_vec::<f32>().unwrap());
        let counters = context().counters();
        let counted = (counters.bytes_to_device, counters.bytes_between_devices, counters.bytes_to_host);
        assert_eq!(counted, (400, 400, 40));
    });
}

#[test]
fn a_round_trip_moves_nothing() {
    with_context(&machine(), || {
        let x = host([50]);
        let back = x.to(GPU).cpu() + 1.0;
        assert_eq!(transfers(&[&back]), []);
        assert_eq!(back.plan().unwrap().dropped_transfers.len(), 2);
        let through = x.to(GPU).t().to(OTHER).cpu() + 1.0;
        assert_eq!(transfers(&[&through]), []);
        let expected = (&x + 1.0).to_vec::<f32>().unwrap();
        assert_eq!(runs_as_planned(&[&back, &through]), [expected.clone(), expected]);
    });
}

#[test]
fn a_hop_between_is_left_out() {
    with_context(&machine(), || {
        let y = on(GPU, [100]).to(Device::cpu()).to(OTHER) * 2.0;
        assert_eq!(transfers(&[&y]), [(Direction::BetweenDevices, 400, TransferReason::Raised)]);
        runs_as_planned(&[&y]);
    });
}

#[test]
fn a_round_trip_of_half_precision_keeps_its_rounding() {
    with_context(&machine(), || {
        let x = host([64]).to_dtype(DType::F16);
        let there = ((&x * 0.1).to(GPU).cpu() * 10.0).to_dtype(DType::F32);
        let stored = ((&x * 0.1).materialize() * 10.0).to_dtype(DType::F32);
        assert_eq!(transfers(&[&there]), []);
        assert_eq!(there.to_vec::<f32>().unwrap(), stored.to_vec::<f32>().unwrap());
    });
}

#[test]
fn a_slice_or_a_cast_to_less_goes_first() {
    with_context(&machine(), || {
        let x = host([1000, 16]);
        let rows = x.to(GPU).i(10..12) * 2.0;
        assert_eq!(transfers(&[&rows]), [(Direction::ToDevice, 2 * 16 * 4, TransferReason::Sunk)]);
        let half = x.to(GPU).to_dtype(DType::F16) * 2.0;
        assert_eq!(transfers(&[&half]), [(Direction::ToDevice, 1000 * 16 * 2, TransferReason::Sunk)]);
        let both = x.to(GPU).t().i((3, ..)).to_dtype(DType::U8).to_dtype(DType::F32);
        assert_eq!(transfers(&[&both]), [(Direction::ToDevice, 1000, TransferReason::Sunk)]);
        let values = runs_as_planned(&[&rows, &half]);
        assert_eq!(values[0], (x.i(10..12) * 2.0).to_vec::<f32>().unwrap());
        assert_eq!(values[1], (x.to_dtype(DType::F16) * 2.0).to_dtype(DType::F32).to_vec::<f32>().unwrap());
    });
}

#[test]
fn the_whole_crosses_where_the_whole_is_read() {
    with_context(&machine(), || {
        let x = host([1000, 16]);
        let there = x.to(GPU);
        let (row, all) = (there.i(3) + 1.0, there.sum(0));
        assert_eq!(transfers(&[&row, &all]), [(Direction::ToDevice, 64000, TransferReason::Requested)]);
        let (one, two) = (there.i(0..600) + 1.0, there.i(400..1000) * 2.0);
        assert_eq!(transfers(&[&one, &two]), [(Direction::ToDevice, 64000, TransferReason::Requested)]);
        let first = there.i(0..10) + 1.0;
        assert_eq!(transfers(&[&first, &there]), [(Direction::ToDevice, 64000, TransferReason::Requested)]);
        runs_as_planned(&[&one, &two, &row, &all]);
    });
}

#[test]
fn what_makes_it_larger_comes_after() {
    with_context(&machine(), || {
        let x = host([16]);
        let wide = x.expand([100, 16]).to(GPU) * 2.0;
        assert_eq!(transfers(&[&wide]), [(Direction::ToDevice, 64, TransferReason::Raised)]);
        let padded = x.pad(&[8, 8], 1.5).to(GPU).exp();
        assert_eq!(transfers(&[&padded]), [(Direction::ToDevice, 64, TransferReason::Raised)]);
        let bytes = Tensor::from_vec((0..100u8).collect(), [100], Device::cpu());
        let floats = bytes.to_dtype(DType::F32).to(GPU) / 255.0;
        assert_eq!(transfers(&[&floats]), [(Direction::ToDevice, 100, TransferReason::Raised)]);
        let values = runs_as_planned(&[&wide, &padded, &floats]);
        assert_eq!(values[0], (x.expand([100, 16]) * 2.0).to_vec::<f32>().unwrap());
        assert_eq!(values[1], x.pad(&[8, 8], 1.5).exp().to_vec::<f32>().unwrap());
        assert_eq!(values[2], (bytes.to_dtype(DType::F32) / 255.0).to_vec::<f32>().unwrap());
    });
}

#[test]
fn numbers_are_made_where_they_are_used() {
    with_context(&machine(), || {
        let zeros = Tensor::zeros([100, 100], Device::cpu()).to(GPU);
        let count = Tensor::arange(0, 50, 1, Device::cpu()).to(GPU);
        assert_eq!(transfers(&[&zeros, &count]), []);
        assert_eq!(count.to_vec::<i64>().unwrap(), (0..50).collect::<Vec<_>>());
    });
}

#[test]
fn several_transfers_of_one_value_are_one() {
    with_context(&machine(), || {
        let x = host([64, 64]);
        let (same, again) = (x.to(GPU) + 1.0, x.to(GPU).sum(0));
        assert_eq!(transfers(&[&same, &again]), [(Direction::ToDevice, 16384, TransferReason::Requested)]);
        let (turned, top, all) = (x.t().to(GPU).exp(), x.i(0..32).to(GPU).exp(), x.to(GPU).exp());
        let expected = [turned.shape(), top.shape(), all.shape()];
        assert_eq!(transfers(&[&turned, &top, &all]), [(Direction::ToDevice, 16384, TransferReason::Shared)]);
        let values = runs_as_planned(&[&turned, &top, &all]);
        assert_eq!(values.iter().map(Vec::len).collect::<Vec<_>>(), expected.map(|shape| shape.numel()));
        assert_eq!(values[0], x.t().exp().to_vec::<f32>().unwrap());
        let (few, more) = (x.i(0..2).to(GPU).exp(), x.i(10..12).to(GPU).exp());
        assert_eq!(transfers(&[&few, &more]).len(), 2, "the parts together are less than the whole");
    });
}

#[test]
fn a_denied_transfer_is_an_error_before_anything_runs() {
    with_context(&machine(), || {
        let (x, y) = (on(GPU, [8]), host([8]));
        let (moved, line) = (&x + y.to(GPU), line!());
        let before = context().counters();
        let error = deny_transfers(|| moved.realize().map(|_| ()).unwrap_err());
        let Error::TransferDenied { from, to, bytes, span } = error else { panic!("{error}") };
        assert_eq!((from, to, bytes, span.line()), (Device::cpu(), GPU, 32, line));
        assert_eq!(context().counters().bytes_transferred(), before.bytes_transferred());
        deny_transfers(|| (&x * 2.0).realize().map(|_| ())).expect("nothing crosses");
        moved.realize().expect("no longer denied");
    });
}

#[test]
fn a_denied_wait_is_an_error() {
    with_context(&machine(), || {
        let x = on(GPU, [8]);
        let guard = deny_sync();
        for _ in 0..3 {
            (&x * 2.0).realize().expect("realizing waits for nothing");
        }
        let error = x.sum(0).item::<f32>().unwrap_err();
        let Error::SyncDenied { call: "item", device: GPU, span } = error else { panic!("{error}") };
        assert_eq!((span.file(), span.line()), (file!(), line!() - 2));
        assert!(matches!(GPU.synchronize(), Err(Error::SyncDenied { call: "synchronize", .. })));
        assert!(matches!(x.cpu().realize(), Err(Error::SyncDenied { .. })), "it passes through the host");
        drop(guard);
        GPU.synchronize().unwrap();
        assert_eq!(x.sum(0).item::<f32>().unwrap(), host([8]).sum(0).item::<f32>().unwrap());
    });
}

#[test]
fn meta_tensors_have_no_data_to_move() {
    with_context(&machine(), || {
        let away = Tensor::ones([2, 2], Device::meta()).to(GPU) + 1.0;
        assert!(matches!(away.realize(), Err(Error::NoData { .. })));
        let back = host([4]).to(Device::meta()).to(Device::cpu()) + 1.0;
        assert!(matches!(back.realize(), Err(Error::NoData { .. })));
    });
}

#[test]
fn a_long_value_crosses_in_pieces() {
    with_context(&machine(), || {
        let x = host([3_000_001]).to(GPU);
        let y = x.to(OTHER);
        realize(&[&x]).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), host([3_000_001]).to_vec::<f32>().unwrap());
    });
}

#[test]
fn pinned_memory_holds_the_same_and_is_sent_like_any() {
    with_context(&machine(), || {
        let x = host([20, 5]).t().exp();
        assert!(!x.is_pinned());
        let pinned = x.pin_memory().unwrap();
        assert!(pinned.is_pinned() && pinned.is_realized() && pinned.device() == Device::cpu());
        assert!(pinned.pin_memory().unwrap().is_pinned(), "again changes nothing");
        assert_eq!(pinned.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
        let there = pinned.to(GPU) + 1.0;
        assert_eq!(transfers(&[&there]), [(Direction::ToDevice, 400, TransferReason::Requested)]);
        // Sending it waits for nothing.
        let guard = deny_sync();
        there.realize().unwrap();
        drop(guard);
        assert_eq!(there.to_vec::<f32>().unwrap(), (&x + 1.0).to_vec::<f32>().unwrap());
        // A device may be copying from it: nothing is written over it.
        let sum = pinned + 1.0;
        sum.realize().unwrap();
        assert!(!sum.is_pinned());
        let away = on(GPU, [4]);
        assert!(matches!(away.pin_memory(), Err(Error::Op(error)) if error.op == "pin_memory"));
    });
}

#[test]
fn small_results_are_fetched_together_once_all_is_launched() {
    with_context(&machine(), || {
        let x = on(GPU, [64, 64]);
        // Each on its own would make the host wait before the next is launched.
        let results = || (0..6).map(|i| (&x * f64::from(i)).sum(0).cpu()).collect::<Vec<Tensor>>();
        let wanted = results();
        let wanted: Vec<&Tensor> = wanted.iter().collect();
        let steps = kiln::plan(&wanted).unwrap().steps_text();
        let order: Vec<bool> = steps
            .lines()
            .filter_map(|line| {
                let is = |word: &str| line.starts_with("  ") && line.contains(word);
                (is("kernel") || is("transfer from")).then(|| is("transfer from"))
            })
            .collect();
        assert!(order.is_sorted() && order.iter().filter(|&&fetched| fetched).count() == 6, "{steps}");
        let before = context().counters();
        realize(&wanted).unwrap();
        let after = context().counters();
        assert_eq!(after.host_waits - before.host_waits, 1);
        assert_eq!(after.bytes_to_host - before.bytes_to_host, 6 * 64 * 4);
        for (i, result) in wanted.iter().enumerate() {
            let expected = (host([64, 64]) * i as f64).sum(0).to_vec::<f32>().unwrap();
            assert_eq!(result.to_vec::<f32>().unwrap(), expected);
        }
    });
}

#[test]
fn what_is_fetched_together_is_what_was_there_on_every_adapter() {
    let Some(device) = adapter::adapter() else { return };
    let x = host([500]).to(device);
    let bytes = x.to_dtype(DType::U8);
    // Views at any byte, of several types.
    let parts = [x.i(3..10), x.i(490..500), bytes.i(1..4), bytes.i(7..500), x.i(0..1)];
    kiln::realize(&parts.iter().chain([&x, &bytes]).collect::<Vec<_>>()).unwrap();
    let fetched: Vec<Tensor> = parts.iter().map(Tensor::cpu).collect();
    kiln::realize(&fetched.iter().collect::<Vec<_>>()).unwrap();
    for (part, fetched) in parts.iter().zip(&fetched) {
        let floats = |x: &Tensor| x.to_dtype(DType::F32).to_vec::<f32>().unwrap();
        assert_eq!(floats(part), floats(fetched));
    }
}

/// Calls of two devices, in the order they begin.
#[derive(Default)]
struct Log {
    calls: Mutex<Vec<&'static str>>,
    changed: Condvar,
}

#[test]
fn a_piece_is_read_while_the_one_before_it_is_written() {
    let context = machine();
    let log = Arc::new(Log::default());
    let reader = log.clone();
    let reads = move |call: &str| {
        if call == "download" {
            reader.calls.lock().unwrap().push("read");
            reader.changed.notify_all();
        }
        Ok(())
    };
    // The first piece is not through before the second is being read.
    let writes = move |call: &str| {
        let mut calls = log.calls.lock().unwrap();
        if call == "write" && !calls.contains(&"write") {
            calls.push("write");
            let waiting = |calls: &mut Vec<&str>| calls.iter().filter(|&&call| call == "read").count() < 2;
            let limit = std::time::Duration::from_secs(120);
            let (_calls, late) = log.changed.wait_timeout_while(calls, limit, waiting).unwrap();
            assert!(!late.timed_out(), "nothing is read while something is written");
        }
        Ok(())
    };
    context.install(Arc::new(Watched { inner: Arc::new(CpuBackend::named(GPU)), watch: Arc::new(reads) }));
    context.install(Arc::new(Watched { inner: Arc::new(CpuBackend::named(OTHER)), watch: Arc::new(writes) }));
    with_context(&context, || {
        let x = on(GPU, [3_000_001]);
        let there = x.to(OTHER);
        there.realize().unwrap();
        assert_eq!(there.to_vec::<f32>().unwrap(), host([3_000_001]).to_vec::<f32>().unwrap());
    });
}

#[test]
fn a_transfer_in_pieces_that_fails_is_an_error_on_either_side() {
    for failing in ["download", "write"] {
        let context = machine();
        let fail = move |call: &str| match call == failing {
            true => {
                Err(Error::Kernel { kernel: call.into(), device: GPU, message: "a fault".into(), span: None })
            }
            false => Ok(()),
        };
        let device = if failing == "download" { GPU } else { OTHER };
        let x = with_context(&context, || host([3_000_001]));
        context
            .install(Arc::new(Watched { inner: Arc::new(CpuBackend::named(device)), watch: Arc::new(fail) }));
        with_context(&context, || {
            let there = x.to(GPU);
            there.realize().unwrap();
            let error = there.to(OTHER).realize().map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("a fault"), "{failing}: {error}");
        });
    }
}
