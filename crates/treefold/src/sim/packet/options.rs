//! The parameters of the machine, with the MultiTree paper's defaults (its Table III).

use crate::bail;
use crate::error::{Error, Result};
use crate::units::Bytes;
use std::str::FromStr;

/// Which interface sends which message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interfaces {
    /// Each port has its own, as the paper's text says.
    Bound,
    /// Any that is free, lowest number first, as the authors' simulator does. Its runs end when the last credit is back.
    Shared,
}

impl FromStr for Interfaces {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "bound" => Ok(Self::Bound),
            "shared" => Ok(Self::Shared),
            _ => bail!("network interface '{text}' is unknown; known are bound, shared"),
        }
    }
}

/// How a message becomes packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowControl {
    /// Many packets of one head flit and a payload each.
    Packet,
    /// One packet with one head flit (section IV-B).
    Message,
}

impl FromStr for FlowControl {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "packet" => Ok(Self::Packet),
            "message" => Ok(Self::Message),
            _ => bail!("flow control '{text}' is unknown; known are packet, message"),
        }
    }
}

/// The machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Which interface sends which message.
    pub interfaces: Interfaces,
    /// Interfaces of a rank; `None`: one a link, but of shared ones no more than the plan starts messages at once.
    pub ports: Option<u32>,
    /// Whether ranks wait out steps in which they send nothing; `None`: where the plan promises that links are free for it.
    pub lockstep: Option<bool>,
    /// How a message becomes packets.
    pub flow_control: FlowControl,
    /// Of every link and injection port.
    pub virtual_channels: u32,
    /// Of every virtual channel.
    pub buffer_flits: u32,
    /// Width of a flit.
    pub flit: Bytes,
    /// Of a packet, or of a sub-message.
    pub payload: Bytes,
    /// Cycles a second; `None`: 1 GHz, or as many as the fastest link carries flits.
    pub clock_hz: Option<f64>,
    /// Pipeline of a router; `None`: 3 cycles in an accelerator, 4 in a switch.
    pub router_cycles: Option<u32>,
    /// Messages (payloads) that an interface buffers before its injection queue.
    pub interface_messages: u32,
    /// Injection queue of an interface; `None`: 80 flits where the router is on the chip, a virtual channel's buffer elsewhere.
    pub injection_flits: Option<u32>,
    /// Processing elements of an accelerator, which add up.
    pub processing_elements: u32,
    /// Elements that a processing element takes at a time.
    pub lanes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interfaces: Interfaces::Bound,
            ports: None,
            lockstep: None,
            flow_control: FlowControl::Packet,
            virtual_channels: 4,
            buffer_flits: 318,
            flit: Bytes(16),
            payload: Bytes(256),
            clock_hz: None,
            router_cycles: None,
            interface_messages: 48,
            injection_flits: None,
            processing_elements: 16,
            lanes: 32,
        }
    }
}

/// The MultiTree paper's clock.
pub const DEFAULT_CLOCK_HZ: f64 = 1e9;
/// Most virtual channels of a port.
pub const MAX_VIRTUAL_CHANNELS: u32 = 16;
/// A router allocates channels, then the switch, then the crossbar: a cycle each.
pub const MIN_ROUTER_CYCLES: u32 = 3;

impl Options {
    /// Refuses a machine that cannot work.
    ///
    /// # Errors
    /// The parameter, its value and the remedy.
    pub fn check(&self) -> Result<()> {
        let (flit, payload) = (self.flit.0, self.payload.0);
        let positive = [
            ("ports", self.ports.unwrap_or(1)),
            ("processing elements", self.processing_elements),
            ("lanes", self.lanes),
            ("interface buffer in messages", self.interface_messages),
        ];
        for (name, value) in positive {
            if value == 0 {
                bail!("{name} must be at least 1, got 0");
            }
        }
        if !(1..=MAX_VIRTUAL_CHANNELS).contains(&self.virtual_channels) {
            bail!("virtual channels must be 1 to {MAX_VIRTUAL_CHANNELS}, got {}", self.virtual_channels);
        }
        if !(1..=1 << 16).contains(&flit) {
            bail!("a flit must have 1 to 65536 bytes, got {flit}");
        }
        if payload == 0 || !payload.is_multiple_of(flit) || payload > 1 << 20 {
            bail!("a payload must be a multiple of the flit ({flit} bytes) up to 1MiB, got {payload} bytes");
        }
        if self.buffer_flits < self.packet_flits() {
            bail!(
                "a buffer must hold a whole packet ({} flits: a head and {payload} bytes), got {} flits",
                self.packet_flits(),
                self.buffer_flits
            );
        }
        if let Some(clock) = self.clock_hz.filter(|clock| !(1.0..=1e15).contains(clock)) {
            bail!("the clock must be 1Hz to 1e15Hz, got {clock}Hz");
        }
        if let Some(cycles) = self.router_cycles.filter(|&cycles| !(MIN_ROUTER_CYCLES..=1 << 20).contains(&cycles)) {
            bail!("a router takes {MIN_ROUTER_CYCLES} to 1048576 cycles, got {cycles}");
        }
        if let Some(flits) = self.injection_flits.filter(|&flits| flits < self.packet_flits()) {
            bail!("an injection queue must hold a whole packet ({} flits), got {flits}", self.packet_flits());
        }
        Ok(())
    }

    /// Head flit and payload.
    pub fn packet_flits(&self) -> u32 {
        1 + (self.payload.0 / self.flit.0) as u32
    }

    /// Cycles in which an accelerator adds up a message of `elements`: the authors' formula.
    pub fn aggregation_cycles(&self, elements: u64) -> u64 {
        let (elements_each, lanes) = (elements.div_ceil(self.processing_elements.into()), self.lanes.into());
        elements_each.div_ceil(lanes) * u64::from(self.processing_elements)
    }
}
