//! The parameters of the machine, with the MultiTree paper's defaults (its Table III).

use crate::bail;
use crate::error::{Error, Result, named};
use crate::units::{Bytes, Time};
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
        named("network interface", text, &[("bound", Self::Bound), ("shared", Self::Shared)])
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
        named("flow control", text, &[("packet", Self::Packet), ("message", Self::Message)])
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
    /// Of every virtual channel; `None`: the MultiTree paper's 318, in a fabric what a credit's round trip needs.
    pub buffer_flits: Option<u32>,
    /// Width of a flit.
    pub flit: Bytes,
    /// Of a packet, or of a sub-message; `None`: 256 bytes, in a fabric 128.
    pub payload: Option<Bytes>,
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
    /// What switches are; `None`: a fabric where a plan has them in its trees, or where they reduce and have a latency of their own.
    pub switches: Option<Switches>,
    /// Where they are a fabric.
    pub fabric: Fabric,
}

/// What switches are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switches {
    /// Routers between network interfaces, flit by flit (MultiTree paper).
    Routers,
    /// A fabric of shared memory, packet by packet, every packet acknowledged (in-network paper).
    Fabric,
}

impl FromStr for Switches {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        named("kind of switches", text, &[("routers", Self::Routers), ("fabric", Self::Fabric)])
    }
}

/// A fabric of shared memory whose switches reduce, with the in-network paper's parameters (its sections IV to VI).
#[derive(Debug, Clone, PartialEq)]
pub struct Fabric {
    /// Reduction table of a port; `None`: 256 bytes, for pulls 4096.
    pub table: Option<Bytes>,
    /// Of a wave.
    pub wave: Bytes,
    /// Waves that may be outstanding, 0 for no limit; `None`: for pushes as many as all tables hold, at least 16, for pulls 4.
    pub waves: Option<u32>,
    /// Flits that cross the switch for each that leaves.
    pub speedup: u32,
    /// Of an output, for each class; `None`: what a credit's round trip needs.
    pub queue_flits: Option<u32>,
    /// Cycles of a read.
    pub memory_cycles: u32,
    /// Fewer cycles than these are added to a read at random.
    pub memory_spread: u32,
    /// Cycles after which an untouched entry is evicted; `None`: ten times the farthest way, or what the busiest link takes for what is
    /// outstanding.
    pub timeout: Option<u32>,
    /// Whether ranks wait for each other before they pull.
    pub barrier: bool,
    /// Who issues requests.
    pub initiation: Initiation,
    /// Requests of which the next is picked at random; 1: in order.
    pub reorder: u32,
    /// Requests that may wait for a port.
    pub window: u32,
    /// When a pull's wave has its credit back.
    pub credit: Credit,
    /// Where pushes of a line meet.
    pub homes: Homes,
    /// What becomes of a push's partial sums.
    pub partials: Partials,
    /// Whether operands are added in a fixed order, in tables that hold those which come early.
    pub deterministic: bool,
    /// Software: from a flag's arrival to the work that it lets begin, fences included.
    pub sync: Time,
    /// Software: what a flag waits for.
    pub fence: Fence,
    /// Of what is random.
    pub seed: u64,
}

impl Default for Fabric {
    fn default() -> Self {
        Self {
            table: None,
            wave: Bytes(8192),
            waves: None,
            speedup: 4,
            queue_flits: None,
            memory_cycles: 180,
            memory_spread: 180,
            timeout: None,
            barrier: false,
            initiation: Initiation::Dma,
            reorder: 1,
            window: 1024,
            credit: Credit::Result,
            homes: Homes::Interleaved,
            partials: Partials::Home,
            deterministic: false,
            sync: DEFAULT_SYNC,
            fence: Fence::Ordered,
            seed: 1,
        }
    }
}

/// Who issues requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initiation {
    /// A DMA engine: what it reads it sends in order, port by port.
    Dma,
    /// Cores: what they read they send as it comes.
    Core,
}

impl FromStr for Initiation {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        named("initiation", text, &[("dma", Self::Dma), ("core", Self::Core)])
    }
}

/// When the credit of a pull's wave comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credit {
    /// When its results are in the memory of who pulls.
    Result,
    /// When they are in everybody's.
    Acknowledgement,
}

impl FromStr for Credit {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        named("credit", text, &[("result", Self::Result), ("acknowledgement", Self::Acknowledgement)])
    }
}

/// How lines are dealt out to home ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Homes {
    /// In turn.
    Interleaved,
    /// In turn, in an order that is drawn anew each time round: all get the same, but some twice in a short while.
    Shuffled,
    /// By a hash of the address: some get more than others, and several in a row.
    Hashed,
}

impl FromStr for Homes {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        named(
            "rule of homes",
            text,
            &[("interleaved", Self::Interleaved), ("shuffled", Self::Shuffled), ("hashed", Self::Hashed)],
        )
    }
}

/// What becomes of a partial sum that leaves its table: the paper's strategies 2 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partials {
    /// A home accelerator adds them up.
    Home,
    /// They are multicast, and every accelerator adds them up.
    Multicast,
}

impl FromStr for Partials {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        named("strategy for partial sums", text, &[("home", Self::Home), ("multicast", Self::Multicast)])
    }
}

/// What software's flag waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// Nothing: the network keeps it behind the data.
    Ordered,
    /// The acknowledgements of the data.
    Acknowledged,
}

impl FromStr for Fence {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        named("fence", text, &[("ordered", Self::Ordered), ("acknowledged", Self::Acknowledged)])
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interfaces: Interfaces::Bound,
            ports: None,
            lockstep: None,
            flow_control: FlowControl::Packet,
            virtual_channels: 4,
            buffer_flits: None,
            flit: Bytes(16),
            payload: None,
            clock_hz: None,
            router_cycles: None,
            interface_messages: 48,
            injection_flits: None,
            processing_elements: 16,
            lanes: 32,
            switches: None,
            fabric: Fabric::default(),
        }
    }
}

/// The MultiTree paper's clock.
pub const DEFAULT_CLOCK_HZ: f64 = 1e9;
/// Most virtual channels of a port.
pub const MAX_VIRTUAL_CHANNELS: u32 = 16;
/// Calibrated: software's ring on 16 accelerators of a DGX-2 is then 18 times slower than pushes where vectors are small.
pub const DEFAULT_SYNC: Time = Time(80_000);
/// A router allocates channels, then the switch, then the crossbar: a cycle each.
pub const MIN_ROUTER_CYCLES: u32 = 3;

impl Options {
    /// Refuses a machine that cannot work.
    ///
    /// # Errors
    /// The parameter, its value and the remedy.
    pub fn check(&self) -> Result<()> {
        let (flit, payload) = (self.flit.0, self.payload().0);
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
        if self.buffer_flits() < self.packet_flits() {
            bail!(
                "a buffer must hold a whole packet ({} flits: a head and {payload} bytes), got {} flits",
                self.packet_flits(),
                self.buffer_flits()
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

    /// Of a packet, where switches only forward.
    pub fn payload(&self) -> Bytes {
        self.payload.unwrap_or(Bytes(256))
    }

    /// Of every virtual channel, where switches only forward.
    pub fn buffer_flits(&self) -> u32 {
        self.buffer_flits.unwrap_or(318)
    }

    /// Head flit and payload.
    pub fn packet_flits(&self) -> u32 {
        1 + (self.payload().0 / self.flit.0) as u32
    }

    /// Cycles in which an accelerator adds up a message of `elements`: the authors' formula.
    pub fn aggregation_cycles(&self, elements: u64) -> u64 {
        let (elements_each, lanes) = (elements.div_ceil(self.processing_elements.into()), self.lanes.into());
        elements_each.div_ceil(lanes) * u64::from(self.processing_elements)
    }
}
