//! The options of the machine that the packet simulator simulates, with the papers' defaults.
//!
//! MultiTree (Huang et al., ISCA 2021), Table III; in-network reduction (Klenk et al., ISCA 2020), sections IV to VI.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bail;
use crate::error::Result;
use crate::number::Operator;
use crate::options;
use crate::units::{Bytes, Frequency, Time};

/// How messages choose a network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Interfaces {
    /// Each port has its own interface, which is our reading of the paper: no sentence says so.
    Bound,
    /// Any free interface serves, the lowest number first, as in the authors' simulator. A run ends when the last
    /// credit is back.
    Shared,
}

/// How a message becomes packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum FlowControl {
    /// A message is many packets, each with a head flit and a payload.
    Packet,
    /// A message is one packet with one head flit (MultiTree, section IV-B).
    Message,
}

/// The machine: routers, network interfaces and adders.
// `x-readers` lists what reads an option (`readers::Reader`), which is everything if it is missing; nothing reads it
// where other options have all of the values that `x-unless` lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Options {
    /// The network interface that a message takes: that of the link on which it leaves (bound), or any that is free
    /// (shared).
    #[schemars(extend(
        "x-paper" = "our reading of MultiTree, section V-A, footnote 3 and Fig. 8",
        "x-readers" = ["routers"]
    ))]
    pub interfaces: Interfaces,
    /// The number of network interfaces of a rank, each with a port; by default one per link, or if they are shared, as
    /// many as the plan uses at once. With fewer ports than links a rank cannot fill its links by itself; bounds do not
    /// count ports, so that plans stay farther below them.
    #[schemars(range(min = 1), extend("x-paper" = "MultiTree, section V-A", "x-readers" = ["routers"]))]
    pub ports: Option<u32>,
    /// Whether a rank starts a step only when its sends of the step before are done, and waits for the estimated time
    /// of each step in which it sends nothing. By default it does so if the plan promises to use no link twice in a
    /// step. With shared interfaces it can make large vectors faster, and small ones slower; with bound ones it
    /// changes little.
    #[schemars(extend("x-paper" = "MultiTree, section IV-A", "x-readers" = ["routers"]))]
    pub lockstep: Option<bool>,
    /// The packets that have a head flit: all (packet), or only the first one of each message (message).
    #[schemars(extend("x-paper" = "MultiTree, section IV-B"))]
    pub flow_control: FlowControl,
    /// The number of virtual channels of each link and of each injection port.
    #[schemars(range(min = 1, max = MAX_VIRTUAL_CHANNELS), extend("x-paper" = "MultiTree, Table III"))]
    pub virtual_channels: u32,
    /// The number of virtual channels, of each class on each link, that messages of plans leave to background traffic;
    /// by default 1 with flow_control=message, and else 0.
    #[schemars(range(max = 15), extend("x-paper" = "MultiTree, section IV-B"))]
    pub kept_channels: Option<u32>,
    /// The number of flits that a virtual channel buffers; by default 318, and in a fabric as many as keep a link busy
    /// during a credit's round trip.
    #[schemars(extend("x-paper" = "MultiTree, Table III"))]
    pub buffer_flits: Option<u32>,
    /// The size of a flit; the payload of a packet must be a multiple of it.
    #[schemars(range(min = 1, max = 65536), extend("x-paper" = "MultiTree, the authors' simulator"))]
    pub flit: Bytes,
    /// The number of bytes that a packet carries; by default 256B, or 128B in a fabric.
    #[schemars(range(min = 1, max = 1048576), extend("x-paper" = "MultiTree, Table III; in-network, section V"))]
    pub payload: Option<Bytes>,
    /// The clock of routers and interfaces; by default 1GHz, or more if the fastest link needs it.
    #[schemars(range(min = 1, max = 1e15), extend("x-paper" = "MultiTree, Table III"))]
    pub clock: Option<Frequency>,
    /// The depth of a router's pipeline, in cycles; by default 3 in accelerators and 4 in switches.
    #[schemars(
        range(min = MIN_ROUTER_CYCLES, max = 1048576),
        extend("x-paper" = "MultiTree, the authors' simulator", "x-readers" = ["routers"])
    )]
    pub router_cycles: Option<u32>,
    /// The size of an interface's buffer before its injection queue, counted in packet payloads (which the authors call
    /// messages).
    #[schemars(range(min = 1), extend("x-paper" = "MultiTree, the authors' simulator", "x-readers" = ["routers"]))]
    pub interface_packets: u32,
    /// The number of flits that the injection queue holds; by default 80 if accelerators have routers, and else as many
    /// as a virtual channel buffers.
    #[schemars(extend("x-paper" = "MultiTree, the authors' simulator", "x-readers" = ["routers"]))]
    pub injection_flits: Option<u32>,
    /// The number of adders of an accelerator. As in the authors' simulator they take turns, so that n elements take
    /// ceil(ceil(n / adders) / lanes) x adders cycles; more adders therefore do not make it faster.
    #[schemars(range(min = 1), extend("x-paper" = "MultiTree, Table III", "x-readers" = ["routers"]))]
    pub processing_elements: u32,
    /// The number of elements that an adder takes at a time.
    #[schemars(range(min = 1), extend("x-paper" = "MultiTree, Table III", "x-readers" = ["routers"]))]
    pub lanes: u32,
    /// The model of switches: routers that forward flit by flit (routers), or shared memory that forwards whole
    /// packets, each of which is acknowledged (fabric). By default it is fabric if switches reduce or multicast in the
    /// plan's trees, or if the network has switches that can do both and have a latency.
    #[schemars(extend("x-paper" = "in-network, section IV"))]
    pub switches: Option<Switches>,
    /// The options of a fabric.
    #[serde(flatten)]
    pub fabric: Fabric,
}

impl options::Options for Options {
    const WHAT: &'static str = "machine";

    fn schema() -> &'static Value {
        static SCHEMA: LazyLock<Value> = LazyLock::new(options::schema_of::<Options>);
        &SCHEMA
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
            kept_channels: None,
            buffer_flits: None,
            flit: Bytes::known(16),
            payload: None,
            clock: None,
            router_cycles: None,
            interface_packets: 48,
            injection_flits: None,
            processing_elements: 16,
            lanes: 32,
            switches: None,
            fabric: Fabric::default(),
        }
    }
}

/// What switches are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Switches {
    /// Routers between network interfaces, flit by flit (MultiTree paper).
    Routers,
    /// A fabric of shared memory, packet by packet, every packet acknowledged (in-network paper).
    Fabric,
}

/// A fabric of shared memory whose switches reduce.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Fabric {
    /// The size of the reduction table of each port of a switch; by default 4KiB for pulls, and 256B for pushes, or
    /// more if many operands meet in few ports.
    #[schemars(extend(
        "x-paper" = "in-network, sections IV-D and VI-C",
        "x-readers" = ["push", "pull"],
        "x-unless" = ["deterministic=true"],
    ))]
    pub table: Option<Bytes>,
    /// The size of a wave: the consecutive bytes of the vector that a rank requests together.
    #[schemars(extend(
        "x-paper" = "in-network, section IV-F",
        "x-readers" = ["push", "pull", "multicast"],
        "x-unless" = ["waves=0"],
    ))]
    pub wave: Bytes,
    /// The number of waves that a rank may have outstanding, 0 for any number; by default 4 for pulls, 0 for plans in
    /// which switches only multicast, and for pushes as many as all reduction tables hold, but at least 16.
    #[schemars(extend("x-paper" = "in-network, section IV-F", "x-readers" = ["push", "pull", "multicast"]))]
    pub waves: Option<u32>,
    /// The internal speed-up of a switch: the number of flits that an output takes in from inside the switch while the
    /// fastest link of the switch carries one.
    #[schemars(
        range(min = 1),
        extend("x-paper" = "in-network, section IV-E", "x-readers" = ["push", "pull", "multicast", "software"])
    )]
    pub speedup: u32,
    /// The number of flits that a switch's output queue holds for each class of virtual channels; by default as many as
    /// keep a link busy during a credit's round trip.
    #[schemars(extend("x-paper" = "in-network, section V", "x-readers" = ["push", "pull", "multicast", "software"]))]
    pub queue_flits: Option<u32>,
    /// The minimum number of cycles of a read from memory; a write takes none. They are cycles of `clock`, which in a
    /// fabric follows from the fastest link: 180 are 115 ns with links of 25 GB/s, and 29 ns with links of 100 GB/s.
    #[schemars(extend("x-paper" = "in-network, section V", "x-readers" = ["push", "pull", "multicast", "software"]))]
    pub memory_cycles: u32,
    /// The spread of reads from memory: each takes a random number of cycles of `clock` more, from 0 to one less than
    /// this.
    #[schemars(extend("x-paper" = "in-network, section V", "x-readers" = ["push", "pull", "multicast", "software"]))]
    pub memory_spread: u32,
    /// The number of cycles without an addition after which an entry of a reduction table is evicted. By default it is
    /// ten times the latency of the longest route; or, if that is longer, a read from memory plus the time that the
    /// busiest link needs to carry all that is outstanding.
    #[schemars(
        extend("x-paper" = "in-network, section IV-C", "x-readers" = ["push"], "x-unless" = ["deterministic=true"])
    )]
    pub timeout_cycles: Option<u32>,
    /// Whether all ranks wait for each other before the first pull, by pulling a flag whose sum is not multicast.
    /// Without it, the simulation takes for granted that the operands of all ranks are ready when it begins.
    #[schemars(extend("x-paper" = "in-network, section IV-B", "x-readers" = ["pull"]))]
    pub barrier: bool,
    /// The issuer of requests: a DMA engine in order (dma), or cores as their reads from memory come back (core). It
    /// decides in which order pushed operands leave, and nothing else.
    #[schemars(extend("x-paper" = "in-network, section IV-F", "x-readers" = ["push"]))]
    pub initiation: Initiation,
    /// The number of waiting requests from which an accelerator picks the next at random; 1 keeps them in order.
    #[schemars(
        range(min = 1),
        extend("x-paper" = "in-network, section IV-F", "x-readers" = ["push", "pull", "multicast"])
    )]
    pub reorder: u32,
    /// The maximum number of requests that queue to leave at each port of an accelerator.
    #[schemars(range(min = 1), extend("x-readers" = ["push", "pull", "multicast", "software"]))]
    pub window: u32,
    /// The event that ends a wave of pulls, so that the next may begin: its results are in the memory of the rank that
    /// pulls (result), or all ranks have acknowledged them (acknowledgement).
    #[schemars(extend("x-paper" = "in-network, section IV-F", "x-readers" = ["pull"], "x-unless" = ["waves=0"]))]
    pub credit: Credit,
    /// The assignment of the lines of a push to their home ports, which are the ports of switches that reduce them: by
    /// a hash of the address, which gives each port the same number of lines (hashed), or in turn (interleaved).
    #[schemars(extend("x-paper" = "in-network, section IV-C", "x-readers" = ["push"]))]
    pub home_mapping: HomeMapping,
    /// The destination of the evicted partial sums of a push: a home accelerator, which adds them up (home), or all
    /// accelerators (multicast).
    #[schemars(
        extend("x-paper" = "in-network, section IV-C", "x-readers" = ["push"], "x-unless" = ["deterministic=true"])
    )]
    pub eviction_policy: EvictionPolicy,
    /// The operator by which switches reduce: one of those of `treefold run`. Elements are float32, or uint32 for
    /// `band`, `bor` and `bxor`.
    #[schemars(extend("x-paper" = "in-network, section IV-D", "x-readers" = ["push", "pull"]))]
    pub op: Operator,
    /// Whether switches add operands in a fixed order, with reduction tables as large as that needs.
    #[schemars(extend("x-paper" = "in-network, section IV-E", "x-readers" = ["push", "pull"]))]
    pub deterministic: bool,
    /// The delay between the arrival of a flag and the start of the software that waits for it. With the default, a
    /// ring all-reduce in software on a DGX-2 takes 18 times as long as pushes for small vectors, as in the paper.
    #[schemars(extend("x-paper" = "in-network, section V", "x-readers" = ["software"]))]
    pub sync_cost: Time,
    /// The fraction of packets that arrive corrupt on each link, and of acknowledgements that are lost; the sender
    /// repeats both.
    #[schemars(
        range(min = 0, max = 1),
        extend("x-paper" = "in-network, section IV-E", "x-readers" = ["push", "pull", "multicast", "software"])
    )]
    pub error_rate: f64,
    /// The number of counters of an accelerator's wave controller, of which every outstanding wave needs one; by
    /// default there are always enough.
    #[schemars(
        range(min = 1),
        extend("x-paper" = "in-network, section IV-F", "x-readers" = ["push", "pull", "multicast"])
    )]
    pub counters: Option<u32>,
    /// The number of cycles after which a wave that found no counter asks again.
    #[schemars(range(min = 1), extend(
        "x-paper" = "in-network, section IV-F",
        "x-readers" = ["push", "pull", "multicast"],
        "x-unless" = ["counters=null"],
    ))]
    pub retry_cycles: u32,
    /// The number of retries of the same packet on a link, or of a wave that finds no counter, after which the
    /// simulation ends with an error that names it.
    #[schemars(extend(
        "x-paper" = "in-network, sections IV-E and IV-F",
        "x-readers" = ["push", "pull", "multicast", "software"],
        "x-unless" = ["error_rate=0.0", "counters=null"],
    ))]
    pub retries: u32,
    /// The moment at which software sends the flag after its data: at once, as the network keeps their order (ordered),
    /// or when all of the data are acknowledged (acknowledged).
    #[schemars(extend("x-paper" = "in-network, section V", "x-readers" = ["software"]))]
    pub fence: Fence,
    /// The seed of all that is random in the machine.
    #[schemars(extend("x-readers" = ["push", "pull", "multicast", "software"]))]
    pub seed: u64,
}

impl Default for Fabric {
    fn default() -> Self {
        Self {
            table: None,
            wave: Bytes::known(8192),
            waves: None,
            speedup: 2,
            queue_flits: None,
            memory_cycles: 180,
            memory_spread: 180,
            timeout_cycles: None,
            barrier: false,
            initiation: Initiation::Dma,
            reorder: 1,
            window: 1024,
            credit: Credit::Result,
            home_mapping: HomeMapping::Hashed,
            eviction_policy: EvictionPolicy::Home,
            op: Operator::Sum,
            deterministic: false,
            error_rate: 0.0,
            counters: None,
            retry_cycles: 100,
            retries: 1000,
            sync_cost: DEFAULT_SYNC_COST,
            fence: Fence::Ordered,
            seed: 1,
        }
    }
}

/// Who issues requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Initiation {
    /// A DMA engine sends in order what it reads, port by port.
    Dma,
    /// Cores send what they read as it comes.
    Core,
}

/// When the credit of a pull's wave comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Credit {
    /// The credit is back when the wave's results are in the memory of the rank that pulls.
    Result,
    /// The credit is back when the results are in the memory of all ranks.
    Acknowledgement,
}

/// How lines are mapped to home ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum HomeMapping {
    /// A hash of the address chooses: of each block of as many lines as there are ports, every port gets one, and some
    /// get two in a short while.
    Hashed,
    /// Lines go to the ports in turn.
    Interleaved,
}

/// What becomes of a partial sum that leaves its table: the paper's strategies 2 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum EvictionPolicy {
    /// A home accelerator adds partial sums up.
    Home,
    /// Partial sums are multicast, and every accelerator adds them up.
    Multicast,
}

/// What software's flag waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Fence {
    /// The flag waits for nothing: the network keeps it behind the data.
    Ordered,
    /// The flag waits until the data are acknowledged.
    Acknowledged,
}

/// The MultiTree paper's clock, in Hz.
pub(crate) const DEFAULT_CLOCK: Frequency = Frequency::known(1e9);
/// The most virtual channels of a port.
pub(crate) const MAX_VIRTUAL_CHANNELS: u32 = 16;
/// Software's cost of synchronisation. It is calibrated: software's ring on 16 accelerators of a DGX-2 is then 18 times
/// slower than pushes where vectors are small.
pub(crate) const DEFAULT_SYNC_COST: Time = Time::from_picoseconds(80_000);
/// The fewest cycles of a router's pipeline: it allocates channels, then the switch, then the crossbar, a cycle each.
pub(crate) const MIN_ROUTER_CYCLES: u32 = 3;

impl Options {
    /// Refuses a machine that cannot work.
    ///
    /// # Errors
    /// If a parameter cannot work; the error says its value and the remedy.
    pub fn check(&self) -> Result<()> {
        let (flit, payload) = (self.flit.get(), self.payload().get());
        options::Options::check_ranges(self)?;
        if !payload.is_multiple_of(flit) {
            bail!("a payload must be a multiple of the flit ({flit} bytes), got {payload} bytes");
        }
        if self.buffer_flits() < self.packet_flits() {
            bail!(
                "a buffer must hold a whole packet ({} flits: a head and {payload} bytes), got {} flits",
                self.packet_flits(),
                self.buffer_flits()
            );
        }
        if let Some(flits) = self.injection_flits.filter(|&flits| flits < self.packet_flits()) {
            bail!("an injection queue must hold a whole packet ({} flits), got {flits}", self.packet_flits());
        }
        Ok(())
    }

    /// Returns the payload of a packet, where switches only forward.
    pub fn payload(&self) -> Bytes {
        self.payload.unwrap_or(Bytes::known(256))
    }

    /// Returns the flits that every virtual channel buffers, where switches only forward.
    pub fn buffer_flits(&self) -> u32 {
        self.buffer_flits.unwrap_or(318)
    }

    /// Returns the virtual channels of a class that plans leave to background traffic.
    pub fn kept_channels(&self) -> u32 {
        self.kept_channels.unwrap_or(u32::from(self.flow_control == FlowControl::Message))
    }

    /// Counts the flits of a packet: its head flit and its payload.
    pub fn packet_flits(&self) -> u32 {
        1 + (self.payload().get() / self.flit.get()) as u32
    }

    /// Returns the cycles in which an accelerator adds up a message of `elements`, by the authors' formula.
    pub(crate) fn aggregation_cycles(&self, elements: u64) -> u64 {
        let (elements_each, lanes) = (elements.div_ceil(self.processing_elements.into()), self.lanes.into());
        elements_each.div_ceil(lanes) * u64::from(self.processing_elements)
    }
}
