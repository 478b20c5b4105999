//! Data parallelism: several ranks train one model, each on its part of every batch.
//!
//! As threads of one process, or as processes that torchrun or an MPI launcher (feature `mpi`) starts; with a GPU
//! each, by NCCL (feature `nccl`):
//!
//! ```text
//! cargo run --release --example ddp -- --threads 4
//! torchrun --no-python --nproc-per-node 4 target/release/examples/ddp
//! cargo build --release --example ddp --features mpi && mpirun -n 4 target/release/examples/ddp
//! cargo run --release --example ddp --features nccl -- --threads 2 --nccl
//! ```

use clap::Parser;
use kiln::dist::{self, Backend, Ddp, Group, Reduce, SpawnOpts};
use kiln::nn::{Layer, Linear, ModuleExt, Relu, Sequential};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;

#[derive(Parser)]
struct Args {
    /// Ranks as threads of this process; 0 for the processes of a launcher
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// A CUDA device for each rank, and data from device to device
    #[arg(long)]
    nccl: bool,
    /// Steps to train
    #[arg(long, default_value_t = 100)]
    steps: u64,
    /// Samples of a step, all ranks together
    #[arg(long, default_value_t = 256)]
    batch: usize,
}

const FEATURES: usize = 16;

fn main() -> kiln::Result<()> {
    let args = Args::parse();
    if args.threads > 0 {
        let opts = SpawnOpts::default().nccl(args.nccl);
        return dist::spawn_with(args.threads, opts, |group| run(&group, group.rank(), &args)).map(drop);
    }
    let backend = match (args.nccl, std::env::var_os("MASTER_ADDR")) {
        (true, _) => Backend::Nccl,
        (false, Some(_)) => Backend::Tcp,
        (false, None) => Backend::Mpi,
    };
    let group = dist::init(backend)?;
    run(&group, group.local_rank(), &args)
}

/// Trains on the default device, or on a rank's own.
fn run(group: &Group, number: usize, args: &Args) -> kiln::Result<()> {
    if args.nccl {
        kiln::with_device(Device::cuda(number as u16), || train(group, args))
    } else {
        train(group, args)
    }
}

fn train(group: &Group, args: &Args) -> kiln::Result<()> {
    let net = Sequential::new().push(Linear::new(FEATURES, 64, ())).push(Relu).push(Linear::new(64, 1, ()));
    // Every rank takes the parameters of rank 0.
    let model = Ddp::new(net, group, ())?;
    let mut optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(3e-3));
    let rows = args.batch / group.size();
    for step in 0..args.steps {
        // Data differ from rank to rank.
        kiln::manual_seed(step * group.size() as u64 + group.rank() as u64);
        let x = Tensor::randn([rows, FEATURES], ());
        let y = x.square().mean(1).unsqueeze(1);
        optimizer.zero_grad();
        let loss = (model.forward(&x) - y).square().mean(..);
        loss.backward()?;
        optimizer.step()?;
        if step % 20 == 0 || step + 1 == args.steps {
            let joint = group.all_reduce(&loss.detach(), Reduce::Mean).item::<f32>()?;
            println!(
                "step {step}, rank {}: loss {:.5}, of all {joint:.5}",
                group.rank(),
                loss.item::<f32>()?
            );
        }
    }
    Ok(())
}
