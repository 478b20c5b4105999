//! Where events are drawn: processes of a trace, and the tracks within them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::Device;
use crate::base::system::process_id;
use crate::profile::Profile;
use crate::runtime::trace::thread_name;

/// A track: its process and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Track {
    pub process: u32,
    pub number: usize,
}

/// The processes and tracks of a trace. The host is the process itself, and devices come after it.
#[derive(Debug)]
pub(super) struct Tracks {
    host: u32,
    devices: Vec<Device>,
    names: BTreeMap<Track, String>,
    /// By process and kind of track: when each of its lanes is free again.
    lanes: BTreeMap<(u32, Lane), Vec<Duration>>,
}

/// Kinds of tracks beside the host's threads. What overlaps goes to lanes of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Kernels of a device.
    Queue,
    /// What was predicted of them.
    Predicted,
    /// Transfers.
    Transfers,
}

/// Lanes of one kind, at most, that numbers leave room for.
const LANES: usize = 1000;

impl Tracks {
    pub(super) fn new(profile: &Profile) -> Tracks {
        let devices = profile.devices.iter().map(|device| device.device).collect();
        Tracks { host: process_id(), devices, names: BTreeMap::new(), lanes: BTreeMap::new() }
    }

    /// The process of a device; devices that only send or receive have that of the transfers.
    pub(super) fn device(&self, device: Device) -> u32 {
        let place = self.devices.iter().position(|known| *known == device).unwrap_or(self.devices.len());
        self.host + 1 + place as u32
    }

    /// The process of the transfers.
    fn transfers(&self) -> u32 {
        self.host + 1 + self.devices.len() as u32
    }

    /// The number of a device among those that are not the host.
    pub(super) fn accelerator(&self, device: Device) -> Option<usize> {
        self.devices.iter().filter(|known| **known != Device::cpu()).position(|known| *known == device)
    }

    /// The track of a host's thread.
    pub(super) fn thread(&mut self, number: usize) -> Track {
        let track = Track { process: self.host, number };
        self.names.entry(track).or_insert_with(|| thread_name(number));
        track
    }

    /// A track of a device that is free from then on, taken until an end.
    pub(super) fn of_device(&mut self, device: Device, lane: Lane, start: Duration, end: Duration) -> Track {
        let process = if lane == Lane::Transfers { self.transfers() } else { self.device(device) };
        let free = self.lanes.entry((process, lane)).or_default();
        let number = free.iter().position(|free| *free <= start).unwrap_or_else(|| {
            free.push(Duration::ZERO);
            free.len() - 1
        });
        free[number] = end;
        let (kind, name) = match lane {
            Lane::Queue => (0, "kernels"),
            Lane::Predicted => (1, "predicted"),
            Lane::Transfers => (2, "transfers"),
        };
        let track = Track { process, number: kind * LANES + number.min(LANES - 1) };
        self.names.entry(track).or_insert_with(|| match number {
            0 => name.into(),
            number => format!("{name}, at the same time ({number})"),
        });
        track
    }

    /// The processes with their names, in the order to show them.
    pub(super) fn processes(&self) -> Vec<(u32, String)> {
        let host = [(self.host, String::from("host"))];
        let devices = self.devices.iter().map(|&device| (self.device(device), device.to_string()));
        let transfers = [(self.transfers(), String::from("transfers"))];
        let used = |process: u32| self.names.keys().any(|track| track.process == process);
        host.into_iter().chain(devices).chain(transfers).filter(|(process, _)| used(*process)).collect()
    }

    /// The tracks with their names.
    pub(super) fn names(&self) -> &BTreeMap<Track, String> {
        &self.names
    }
}
