//! Quantities that a simulator samples over time, for each node or each link.
//!
//! A simulator does not know its end before it is there. It sums over windows of a power of two of cycles, of which it
//! merges pairs when they become too many (`packet/levels.rs`), so that memory stays bounded. A reader cuts the whole
//! time into as many equal windows as it likes; what lies in a window of the simulator is spread evenly over it.

use crate::topology::{LinkId, NodeId, Topology};

/// A quantity that is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// The flits in the input buffers of each router.
    Buffers,
    /// The share of time in which each link was free and something wanted it, but nothing had credit.
    Credits,
    /// The share of time in which flits of two or more inputs of a router wanted each link.
    Contention,
    /// The bytes in the reduction tables of each switch.
    Tables,
    /// The share of time in which each link carried a packet.
    Busy,
}

/// The items of which there are samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Items {
    /// The nodes of a network.
    Nodes,
    /// Its links.
    Links,
}

impl Quantity {
    /// Returns its name: one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Buffers => "buffers",
            Self::Credits => "credits",
            Self::Contention => "contention",
            Self::Tables => "tables",
            Self::Busy => "busy",
        }
    }

    /// Returns what it is, in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Buffers => "flits in buffers",
            Self::Credits => "share of the time without credit",
            Self::Contention => "share of the time in contention",
            Self::Tables => "bytes in reduction tables",
            Self::Busy => "share of the time that links are busy",
        }
    }

    /// Returns its unit; shares have none.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Buffers => "flits",
            Self::Tables => "bytes",
            Self::Credits | Self::Contention | Self::Busy => "",
        }
    }

    /// Returns of what there are samples.
    pub fn of(self) -> Items {
        match self {
            Self::Buffers | Self::Tables => Items::Nodes,
            Self::Credits | Self::Contention | Self::Busy => Items::Links,
        }
    }
}

/// The samples of a quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// The quantity.
    pub quantity: Quantity,
    /// The cycles of a window.
    pub width: u64,
    /// The cycle at which the trace ends.
    pub end: u64,
    /// The cycle from which on the quantity is zero: `end`, or later if other jobs went on.
    pub sampled: u64,
    /// The value that a level of 1 stands for.
    pub scale: f64,
    /// The sums of the levels of all cycles of a window, by item and window; windows reach up to `end`.
    pub sums: Vec<f64>,
}

impl Samples {
    /// Returns how many windows each item has: at least one.
    pub fn windows(&self) -> usize {
        self.end.div_ceil(self.width).max(1) as usize
    }

    /// Returns, item by item, the mean value in each of `windows` equal parts of the time of the trace.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// use treefold::sim::{Watch, packet};
    /// use treefold::units::Bytes;
    /// # let line = Arc::new(treefold::topology::from_spec("line:3", None, None)?);
    /// # let plan = planners::plan("ring", &line, &Options::default())?;
    /// let outcome = packet::simulate(&plan, Bytes::known(1 << 14), &packet::Options::default(), Watch::TRANSFERS)?;
    /// let buffers = &outcome.trace.samples[0];
    /// assert_eq!(buffers.quantity.name(), "buffers");
    /// let means = buffers.over(4);
    /// assert_eq!(means.len(), 3 * 4, "there are three nodes");
    /// let peak = *outcome.peaks.iter().max().unwrap() as f32;
    /// assert!(means.iter().all(|mean| *mean <= 16.0 * peak), "of so many buffers at most");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn over(&self, windows: usize) -> Vec<f32> {
        let own = self.windows();
        // Nothing is ever there in a trace of no time.
        let part = self.end.max(1) as f64 / windows as f64;
        let mut values = Vec::with_capacity(self.sums.len() / own * windows);
        for row in self.sums.chunks_exact(own) {
            let (mut before, mut whole, mut place) = (0.0, 0.0, 0);
            for window in 1..=windows {
                let until = if window == windows { self.end as f64 } else { part * window as f64 };
                while place + 1 < own && (self.width * (place as u64 + 1)) as f64 <= until {
                    whole += row[place];
                    place += 1;
                }
                let sum = whole + row[place] * self.share_until(place as u64, until);
                values.push((((sum - before) / part).max(0.0) * self.scale) as f32);
                before = sum;
            }
        }
        values
    }

    /// Returns the share of a window that lies before a time, in cycles.
    fn share_until(&self, place: u64, time: f64) -> f64 {
        let start = self.width * place;
        let end = (start + self.width).min(self.sampled);
        ((time - start as f64) / (end - start).max(1) as f64).clamp(0.0, 1.0)
    }
}

/// Returns the name of an item in the list of a network's nodes or links.
pub fn name_of(items: Items, place: usize, topology: &Topology) -> String {
    match items {
        Items::Nodes => topology.node(NodeId::new(place)).name.clone(),
        Items::Links => topology.describe_link(LinkId::new(place)),
    }
}
