//! The parameters of a fabric in cycles, flits and lines, and which of them cannot work.

use super::super::machine::{CYCLE, Machine, Wire};
use super::super::options::{Fabric, Options};
use super::operand::Reducer;
use super::regions::{Method, Region, Regions};
use super::routes::Routes;
use crate::error::Result;
use crate::misfit;
use crate::topology::Topology;

/// The bytes of the paper's tables, by method.
const PUSH_TABLE: u64 = 256;
const PULL_TABLE: u64 = 4096;
/// The paper's number of waves that keep a DGX-2 busy, by method.
const PUSH_WAVES: u64 = 16;
const PULL_WAVES: u32 = 4;
/// The part of what is outstanding that tables must hold: 48 kB of 128 kB in the paper's DGX-2.
const TABLE_PART: f64 = 0.375;
/// How often as long as the farthest route an untouched entry may wait.
const TIMEOUT_ROUTES: u64 = 10;

/// The parameters of a fabric.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Bytes of a payload, and of an entry.
    pub line: u64,
    /// Bytes of a flit.
    pub flit: u64,
    /// Flits of a packet with a payload.
    pub packet_flits: u32,
    /// Flits of a packet without a payload.
    pub header_flits: u32,
    /// Flits of a packet with a flag.
    pub flag_flits: u32,
    /// Entries of a reduction table.
    pub entries: usize,
    /// Cycles after which an untouched entry is evicted.
    pub timeout: u64,
    pub queue_flits: u32,
    pub buffer_flits: u32,
    /// Virtual channels: two of each level.
    pub channels: usize,
    pub barrier: bool,
    pub wave_lines: u64,
    /// How many waves a rank may have outstanding; `None` for any number.
    pub waves: Option<u32>,
    /// Cycles that software takes to synchronise.
    pub sync: u64,
    /// Whether links and tables are sampled.
    pub samples: bool,
    /// How operands are combined.
    pub reducer: Reducer,
    /// The options, many of which are used as they are given.
    pub fabric: Fabric,
}

impl Parameters {
    /// Makes the parameters of a fabric for these trees.
    ///
    /// # Errors
    /// If a parameter cannot work; the error says its value and the remedy.
    pub fn new(
        regions: &Regions,
        routes: &Routes,
        topology: &Topology,
        machine: &Machine,
        options: &Options,
    ) -> Result<Self> {
        let fabric = &options.fabric;
        let (line, packet_flits) = (options.payload().get(), options.packet_flits());
        let table =
            fabric.table.map_or_else(|| default_table(regions, fabric.wave.get()).max(line), |table| table.get());
        check(regions, table, line, fabric)?;
        let enough = round_trip(machine, packet_flits);
        let (buffer, queue) = (options.buffer_flits.unwrap_or(enough), fabric.queue_flits.unwrap_or(enough));
        let short = buffer.min(queue);
        if short < packet_flits {
            misfit!(
                "buffers and queues must hold a whole packet ({packet_flits} flits: a header and {line} bytes), \
                 got {short} flits"
            );
        }
        let waves = match fabric.waves {
            Some(0) => None,
            waves => Some(waves.unwrap_or_else(|| default_waves(regions, table, fabric.wave.get()))),
        };
        // Without waves operands are apart as far as it happens, and waiting for them would only hold up the end.
        let outstanding = f64::from(waves.unwrap_or(0)) * fabric.wave.get() as f64;
        let outstanding = (regions.busiest * outstanding * machine.clock.hertz()) as u64;
        Ok(Self {
            line,
            flit: options.flit.get(),
            packet_flits,
            header_flits: 1,
            flag_flits: 2,
            entries: (table / line) as usize,
            timeout: timeout(regions, routes, fabric, outstanding)?,
            queue_flits: queue,
            buffer_flits: buffer,
            channels: channels(routes, topology, options)?,
            barrier: regions.all(Method::Pull) && fabric.barrier,
            wave_lines: fabric.wave.get() / line,
            waves,
            sync: (fabric.sync_cost.seconds() * machine.clock.hertz()).round() as u64,
            samples: false,
            reducer: fabric.op.into(),
            fabric: fabric.clone(),
        })
    }
}

/// Refuses tables and waves that are too small, and sums that cannot be deterministic.
fn check(regions: &Regions, table: u64, line: u64, fabric: &Fabric) -> Result<()> {
    for (what, value, flag) in [("a reduction table", table, "table"), ("a wave", fabric.wave.get(), "wave")] {
        if value < line && !regions.regions.is_empty() {
            misfit!("{what} must hold a packet's payload ({line} bytes), got {value} bytes; raise {flag}");
        }
    }
    let multi_homed = |region: &Region| region.method == Method::Pull && region.top.count > 1;
    if fabric.deterministic && regions.regions.iter().any(multi_homed) {
        misfit!("answers that come to a rank over several links are added as they come: drop deterministic");
    }
    Ok(())
}

/// Returns how many virtual channels the routes need.
fn channels(routes: &Routes, topology: &Topology, options: &Options) -> Result<usize> {
    let channels = 2 * routes.levels;
    if channels > options.virtual_channels {
        misfit!(
            "{}: needs {channels} virtual channels to be free of deadlock ({}), got {}; raise virtual_channels",
            topology.name(),
            if channels == 2 { "requests, responses" } else { "its routes close circles" },
            options.virtual_channels
        );
    }
    Ok(channels as usize)
}

/// Returns the cycles until an untouched entry goes. It must survive the time between two ranks' operands: they are a
/// few routes apart, or as far as it takes the busiest link to carry what is `outstanding`, and a read.
fn timeout(regions: &Regions, routes: &Routes, fabric: &Fabric, outstanding: u64) -> Result<u64> {
    let farthest = regions.farthest(routes);
    let apart = outstanding + u64::from(fabric.memory_cycles) + u64::from(fabric.memory_spread);
    let timeout = fabric.timeout_cycles.map_or(apart.max(TIMEOUT_ROUTES * farthest), u64::from);
    if timeout < 2 * farthest {
        misfit!(
            "a timeout of {timeout} cycles is shorter than a round trip of {} cycles: sums would be evicted \
             whenever ranks are apart; raise \
             timeout_cycles",
            2 * farthest
        );
    }
    Ok(timeout)
}

/// Returns the size of the paper's tables, unless pushes meet in few ports: then tables hold all that is outstanding.
/// What is pushed into one rank is outstanding for about as long as what is pulled: until that rank has it.
fn default_table(regions: &Regions, wave: u64) -> u64 {
    let outstanding = regions.table_share * (PUSH_WAVES * wave) as f64;
    if regions.all(Method::Pull) {
        return PULL_TABLE;
    }
    if regions.regions.iter().any(|region| region.alone) {
        return PULL_TABLE.max(outstanding as u64);
    }
    if outstanding * TABLE_PART > PUSH_TABLE as f64 { outstanding as u64 } else { PUSH_TABLE }
}

/// Returns the paper's number of waves, or for pushes as many as tables hold, where all of a wave meets in some of
/// them.
fn default_waves(regions: &Regions, table: u64, wave: u64) -> u32 {
    let held = table as f64 / (regions.table_share * wave as f64);
    if regions.all(Method::Pull) {
        return PULL_WAVES;
    }
    (held as u64).clamp(PUSH_WAVES, u32::MAX.into()) as u32
}

/// Counts the flits that a link needs under way to be busy: a credit's round trip, and a packet more.
fn round_trip(machine: &Machine, packet_flits: u32) -> u32 {
    let flits = |link: &Wire| ((link.delay + link.credit_delay) * CYCLE).div_ceil(link.flit);
    machine.links.iter().map(flits).max().unwrap_or(0) as u32 + 2 * packet_flits
}
