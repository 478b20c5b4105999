//! Data out of a device, and from one device to another.

use std::sync::{Arc, mpsc};
use std::thread::Builder;

use crate::base::{Device, DeviceKind, Error, Result, Span};
use crate::ir::{Layout, Leaf, Type};
use crate::plan::context::{Context, add};
use crate::plan::wait::now;
use crate::runtime::label::{self, Label};
use crate::runtime::trace::{self, Activity};
use crate::runtime::{Backend, Binding, Download, Waiting, host};

/// Bytes that pass through the host at once on the way from one device to
/// another.
pub(crate) const CHUNK: usize = 4 << 20;

/// Copies a value into memory of another device, row-major.
///
/// # Errors
/// Either driver's failure; the source stays as it is.
pub(crate) async fn transfer(
    context: &Context,
    ty: &Type,
    value: &Leaf,
    to: Binding<'_>,
    device: Device,
    waiting: Waiting,
) -> Result<()> {
    let target = context.backend(device)?;
    let count = ty.bytes();
    context.counts.transferred(ty.device, device, count);
    if count == 0 {
        return Ok(());
    }
    if !value.layout.is_contiguous(&ty.shape) {
        return target.write(to, &read_dense(context, ty, value, waiting).await?);
    }
    let start = value.layout.offset as usize * ty.dtype.size();
    if value.buffer.device == Device::cpu() {
        return target.write_from(to, &value.buffer, start, count);
    }
    if trace::is_on() {
        wait_apart(context, value.buffer.device)?;
    }
    let source = context.backend(value.buffer.device)?;
    let from = Binding { buffer: &value.buffer, offset: start };
    if target.copy_from_peer(to, source.as_ref(), from, count)? {
        return Ok(());
    }
    add(&context.counts.host_waits, 1);
    let write =
        |at: usize, piece: &[u8]| target.write(Binding { buffer: to.buffer, offset: to.offset + at }, piece);
    if waiting == Waiting::Yield {
        for (at, bytes) in pieces(count) {
            let mut piece = vec![0; bytes];
            let part = Download { buffer: &value.buffer, start: start + at, out: &mut piece };
            source.download_async(&mut [part]).await?;
            write(at, &piece)?;
        }
        return Ok(());
    }
    let read = |at: usize, piece: &mut [u8]| source.download(&value.buffer, start + at, piece);
    if count <= CHUNK { one_piece(count, &read, &write) } else { in_pieces(count, &read, &write) }
}

type ReadPiece<'a> = dyn Fn(usize, &mut [u8]) -> Result<()> + 'a;
type WritePiece<'a> = dyn Fn(usize, &[u8]) -> Result<()> + Sync + 'a;

fn one_piece(count: usize, read: &ReadPiece<'_>, write: &WritePiece<'_>) -> Result<()> {
    let mut piece = vec![0; count];
    read(0, &mut piece)?;
    write(0, &piece)
}

/// Reads each piece while the one before it is written. This thread reads,
/// since a device reports bad indices to the thread that launched.
fn in_pieces(count: usize, read: &ReadPiece<'_>, write: &WritePiece<'_>) -> Result<()> {
    let (full, filled) = mpsc::sync_channel::<(usize, Vec<u8>)>(1);
    let (empty, written) = mpsc::channel::<Vec<u8>>();
    let write_all = move || {
        for (at, piece) in filled {
            write(at, &piece)?;
            // The reader may have read everything, and want no more.
            let _ = empty.send(piece);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let writer = Builder::new().name("kiln-transfer".into()).spawn_scoped(scope, write_all);
        let Ok(writer) = writer else {
            // The system refuses a thread.
            let mut piece = vec![0; CHUNK];
            return pieces(count).try_for_each(|(at, bytes)| {
                read(at, &mut piece[..bytes])?;
                write(at, &piece[..bytes])
            });
        };
        let read = pieces(count).try_for_each(|(at, bytes)| {
            let mut piece = written.try_recv().unwrap_or_default();
            piece.resize(bytes, 0);
            read(at, &mut piece)?;
            // A writer that has failed takes nothing more, and says why.
            let _ = full.send((at, piece));
            Ok(())
        });
        drop(full);
        let wrote = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        read.and(wrote)
    })
}

/// Where pieces start, and their bytes.
fn pieces(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).step_by(CHUNK).map(move |at| (at, CHUNK.min(count - at)))
}

/// Brings dense values of one device into host memory, waiting once for all.
///
/// # Errors
/// The device's failure.
pub(crate) async fn fetch(
    context: &Context,
    values: &[(&Type, Leaf)],
    to: &[Binding<'_>],
    waiting: Waiting,
) -> Result<()> {
    let Some((_, first)) = values.first() else { return Ok(()) };
    let (source, host) = (context.backend(first.buffer.device)?, context.backend(Device::cpu())?);
    if trace::is_on() {
        wait_apart(context, first.buffer.device)?;
    }
    let mut staged: Vec<Vec<u8>> = values.iter().map(|(ty, _)| vec![0; ty.bytes()]).collect();
    let mut parts: Vec<Download<'_>> = Vec::with_capacity(values.len());
    for ((ty, value), out) in values.iter().zip(&mut staged) {
        context.counts.transferred(ty.device, Device::cpu(), ty.bytes());
        let start = value.layout.offset as usize * ty.dtype.size();
        parts.push(Download { buffer: &value.buffer, start, out });
    }
    add(&context.counts.host_waits, 1);
    match waiting {
        Waiting::Block => source.download_all(&mut parts)?,
        Waiting::Yield => source.download_async(&mut parts).await?,
    }
    to.iter().zip(&staged).try_for_each(|(&to, bytes)| host.write(to, bytes))
}

/// A copy of a value of the CPU's in pinned memory, row-major.
///
/// # Errors
/// Out of memory.
pub(crate) fn pinned(context: &Context, ty: &Type, value: &Leaf, span: Span) -> Result<Leaf> {
    let is_there = context.device_count(DeviceKind::Cuda) > 0;
    let pinning = if is_there { Device::cuda(DeviceKind::Cuda.current()) } else { ty.device };
    // A device that is listed and does not open pins nothing.
    let backend = context.backend(pinning).or_else(|_| context.backend(ty.device))?;
    let dense = now(read_dense(context, ty, value, Waiting::Block))?;
    let label = Label { name: "pin_memory", shape: ty.shape.clone(), span: Some(span) };
    let mut block = label::allocating(label, || backend.allocate_pinned(dense.len()))?;
    host::fill(&mut block, |bytes| bytes.copy_from_slice(&dense));
    Ok(Leaf { buffer: Arc::new(block), layout: Layout::contiguous(&ty.shape) })
}

/// The elements of a value for the host to read, row-major, as bytes. Counts
/// what crosses to the host.
///
/// # Errors
/// The driver's failure.
pub(crate) async fn read(context: &Context, ty: &Type, leaf: &Leaf, waiting: Waiting) -> Result<Vec<u8>> {
    if trace::is_on() && ty.device != Device::cpu() {
        wait_apart(context, ty.device)?;
    }
    let recorded = trace::span(Activity::Transfer).on(Device::cpu()).moving(ty.device, ty.bytes());
    let bytes = read_dense(context, ty, leaf, waiting).await?;
    if ty.device == Device::cpu() {
        recorded.discard();
    }
    if ty.device != Device::cpu() {
        context.counts.transferred(ty.device, Device::cpu(), bytes.len());
    }
    Ok(bytes)
}

/// Waits for a device before a copy would, so that a record tells the two apart.
#[cold]
fn wait_apart(context: &Context, device: Device) -> Result<()> {
    let _span = trace::span(Activity::Wait).on(device);
    let backend = context.backend(device)?;
    backend.flush().and_then(|()| backend.sync())
}

/// That many bytes of host memory. A view repeats what it likes, and its
/// elements may be more than there is memory.
fn host_bytes(bytes: usize) -> Result<Vec<u8>> {
    /// What need not be asked for twice.
    const SURE: usize = 1 << 30;
    if bytes > SURE && Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
        let (device, requested) = (Device::cpu(), bytes as u64);
        let largest = Arc::new([]);
        return Err(Error::OutOfMemory {
            device,
            requested,
            in_use: 0,
            limit: u64::MAX,
            largest,
            span: None,
        });
    }
    Ok(vec![0; bytes])
}

async fn download(
    backend: &dyn Backend,
    leaf: &Leaf,
    start: usize,
    out: &mut [u8],
    waiting: Waiting,
) -> Result<()> {
    match waiting {
        Waiting::Block => backend.download(&leaf.buffer, start, out),
        Waiting::Yield => backend.download_async(&mut [Download { buffer: &leaf.buffer, start, out }]).await,
    }
}

/// The elements of a leaf in row-major order, as bytes.
///
/// # Errors
/// The driver's failure.
pub(crate) async fn read_dense(
    context: &Context,
    ty: &Type,
    leaf: &Leaf,
    waiting: Waiting,
) -> Result<Vec<u8>> {
    let size = ty.dtype.size();
    let mut bytes = host_bytes(ty.shape.numel() * size)?;
    if bytes.is_empty() {
        return Ok(bytes);
    }
    let backend = context.backend(leaf.buffer.device)?;
    add(&context.counts.host_waits, 1);
    if leaf.layout.is_contiguous(&ty.shape) {
        download(&*backend, leaf, leaf.layout.offset as usize * size, &mut bytes, waiting).await?;
        return Ok(bytes);
    }
    let mut whole = vec![0; leaf.buffer.bytes];
    download(&*backend, leaf, 0, &mut whole, waiting).await?;
    let strides = &leaf.layout.strides;
    let mut index = vec![0usize; ty.shape.rank()];
    for element in bytes.chunks_exact_mut(size) {
        let at = index.iter().zip(strides).fold(leaf.layout.offset, |at, (&i, &s)| at + i as i64 * s);
        let at = at as usize * size;
        element.copy_from_slice(&whole[at..at + size]);
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            if index[axis] < ty.shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    Ok(bytes)
}
