//! How processes find each other: rank 0 waits where all know, the others say there where they listen.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::dist::tcp::frame::{Reader, Writer, read_described, write_described};

/// What a process that joins says first; another version says something else.
const HELLO: &str = "kiln ranks 1";

/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a connection may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where rank 0 waits.
#[derive(Clone, Debug)]
pub struct Place {
    pub host: String,
    pub port: u16,
}

impl Place {
    /// `MASTER_ADDR` and `MASTER_PORT`. Where torchrun's agent keeps that port for itself, the next one.
    pub fn from_environment() -> Result<Place, String> {
        let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
        let (host, text) = (variable("MASTER_ADDR")?, variable("MASTER_PORT")?);
        let port: u16 = text.trim().parse().map_err(|_| format!("MASTER_PORT is {text:?}, not a port"))?;
        let is_agents = std::env::var("TORCHELASTIC_USE_AGENT_STORE").is_ok_and(|it| it == "True");
        let port = if is_agents { port.wrapping_add(1) } else { port };
        Ok(Place { host, port })
    }

    fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let found = (&self.host[..], self.port).to_socket_addrs();
        found.map(Iterator::collect).map_err(|error| format!("MASTER_ADDR {}: {error}", self.host))
    }
}

/// A connection to each other rank.
pub fn meet(
    rank: usize,
    size: usize,
    place: &Place,
    timeout: Duration,
) -> Result<BTreeMap<usize, TcpStream>, String> {
    let deadline = Instant::now() + timeout;
    let mut streams = if size == 1 {
        BTreeMap::new()
    } else if rank == 0 {
        gather(size, place, deadline)?
    } else {
        join(rank, size, place, deadline)?
    };
    for stream in streams.values_mut() {
        prepare(stream, timeout).map_err(|error| error.to_string())?;
    }
    Ok(streams)
}

/// Small messages go at once, and no write waits longer than ranks do.
fn prepare(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(Some(timeout.max(Duration::from_millis(1))))
}

/// Rank 0: waits for all others, then tells each where the others listen.
fn gather(size: usize, place: &Place, deadline: Instant) -> Result<BTreeMap<usize, TcpStream>, String> {
    let listener = listen_at(place)?;
    let (mut streams, mut table) = (BTreeMap::new(), BTreeMap::new());
    accept(&listener, (1..size).collect(), size, deadline, |rank, port, stream| {
        let address = stream.peer_addr()?;
        table.insert(rank, SocketAddr::new(address.ip(), port));
        streams.insert(rank, stream);
        Ok(())
    })?;
    let mut writer = Writer::default();
    table.values().for_each(|address| writer.text(&address.to_string()));
    for (rank, stream) in &mut streams {
        write_described(stream, &writer.0).map_err(|error| format!("rank {rank}: {error}"))?;
    }
    Ok(streams)
}

/// The address that all know, or, where this machine calls itself otherwise, its port.
fn listen_at(place: &Place) -> Result<TcpListener, String> {
    let known = TcpListener::bind(&place.addresses()?[..]);
    let bound = match known {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
            TcpListener::bind((IpAddr::from([0, 0, 0, 0]), place.port))
        }
        known => known,
    };
    bound.map_err(|error| format!("rank 0 cannot listen at {}:{}: {error}", place.host, place.port))
}

/// Another rank: says to rank 0 where it listens, connects to those below it, and waits for those above.
fn join(
    rank: usize,
    size: usize,
    place: &Place,
    deadline: Instant,
) -> Result<BTreeMap<usize, TcpStream>, String> {
    let addresses = place.addresses()?;
    let mut first = connect(&addresses, deadline)
        .map_err(|error| format!("rank 0 does not answer at {}:{}: {error}", place.host, place.port))?;
    let failed = |error: io::Error| format!("rank 0 ended while ranks met: {error}");
    let listener = first.local_addr().and_then(|own| TcpListener::bind((own.ip(), 0))).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    introduce(&mut first, rank, size, port).map_err(failed)?;
    let left = deadline.saturating_duration_since(Instant::now()).max(PAUSE);
    first.set_read_timeout(Some(left)).map_err(failed)?;
    let table = read_described(&mut first).map_err(failed)?;
    let mut table = Reader(&table);
    let mut streams = BTreeMap::from([(0, first)]);
    for other in 1..rank {
        let address = table.text().map_err(failed)?.parse().map_err(|_| "not an address".to_string())?;
        let failed = |error: io::Error| format!("rank {other} does not answer at {address}: {error}");
        let mut stream = connect(&[address], deadline).map_err(failed)?;
        introduce(&mut stream, rank, size, port).map_err(failed)?;
        streams.insert(other, stream);
    }
    accept(&listener, (rank + 1..size).collect(), size, deadline, |other, _, stream| {
        streams.insert(other, stream);
        Ok(())
    })?;
    Ok(streams)
}

fn introduce(stream: &mut TcpStream, rank: usize, size: usize, port: u16) -> io::Result<()> {
    let mut hello = Writer::default();
    hello.text(HELLO);
    [rank as u64, size as u64, u64::from(port)].into_iter().for_each(|number| hello.number(number));
    write_described(stream, &hello.0)
}

/// Tries until somebody answers.
fn connect(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut last = io::Error::from(ErrorKind::TimedOut);
        for address in addresses {
            match TcpStream::connect_timeout(address, left.max(PAUSE)) {
                Ok(stream) if !is_own(&stream) => return Ok(stream),
                Ok(_) => last = ErrorKind::ConnectionRefused.into(),
                Err(error) => last = error,
            }
        }
        if Instant::now() + PAUSE > deadline {
            return Err(last);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether this connects to itself: where nobody listens yet at a port that systems also give to who connects, it
/// may be given as its own, and then keeps rank 0 from listening there.
fn is_own(stream: &TcpStream) -> bool {
    matches!((stream.local_addr(), stream.peer_addr()), (Ok(own), Ok(other)) if own == other)
}

/// Takes connections until all of these ranks have come. What is no rank is ignored.
fn accept(
    listener: &TcpListener,
    mut missing: BTreeSet<usize>,
    size: usize,
    deadline: Instant,
    mut take: impl FnMut(usize, u16, TcpStream) -> io::Result<()>,
) -> Result<(), String> {
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    while !missing.is_empty() {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if Instant::now() > deadline {
                    return Err(format!("ranks {missing:?} did not come in time"));
                }
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(error) => return Err(error.to_string()),
        };
        let Ok((rank, theirs, port)) = introduced(&stream) else { continue };
        if theirs != size {
            return Err(format!("rank {rank} says that there are {theirs} ranks, and not {size}"));
        }
        if !missing.remove(&rank) {
            return Err(format!("there are two processes of rank {rank}"));
        }
        take(rank, port, stream).map_err(|error| format!("rank {rank}: {error}"))?;
    }
    Ok(())
}

/// Rank, number of ranks and port of who has connected.
fn introduced(stream: &TcpStream) -> io::Result<(usize, usize, u16)> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let hello = read_described(&mut &*stream)?;
    let mut hello = Reader(&hello);
    if hello.text()? != HELLO {
        return Err(ErrorKind::InvalidData.into());
    }
    Ok((hello.size()?, hello.size()?, hello.number()? as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_answers_where_nobody_listens() {
        // Of those that Linux gives to who connects: even ones, as long as there are any.
        let mut addresses = (40_000..60_000).step_by(2).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let free = addresses.find(|address| TcpListener::bind(address).is_ok()).expect("a free port");
        // One of some ten thousand connections is given the port that it asks for.
        for _ in 0..40_000 {
            let answer = connect(&[free], Instant::now());
            assert!(answer.is_err(), "{answer:?}");
        }
    }
}
