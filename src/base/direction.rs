//! Directions of transfers between devices.

use std::fmt;

use crate::base::device::Device;

/// Which way data crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the host's memory to a device.
    ToDevice,
    /// From a device to the host's memory.
    ToHost,
    /// From one device to another.
    BetweenDevices,
}

impl Direction {
    /// The direction from one device to another. The host is the CPU; its
    /// virtual namesakes (`cpu:1`) count as devices.
    pub fn of(from: Device, to: Device) -> Direction {
        if from == Device::cpu() {
            Direction::ToDevice
        } else if to == Device::cpu() {
            Direction::ToHost
        } else {
            Direction::BetweenDevices
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Direction::ToDevice => "host to device",
            Direction::ToHost => "device to host",
            Direction::BetweenDevices => "device to device",
        })
    }
}
