//! The trace file: when each transfer of a run or a simulation left and came, as columns.
//!
//! As in `plan/json.rs`, the types are the one description of the format: `schema/trace.schema.json` and what errors
//! say of a field come from their doc comments. `make options` writes the schema.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::trace::{Trace, Transfer};
use crate::bail;
use crate::error::{Error, Result};
use crate::options;
use crate::plan::{Direction, Draft, LaneRef, Step, Walkable, misread, step_number};
use crate::topology::{NodeId, check_header};
use crate::units::{Bytes, Seconds};

const VERSION: u32 = 1;
const FORMAT: &str = "treefold-trace";
/// The most bytes of a transfer, which are those of the largest vector.
const MOST_BYTES: f64 = 1e18;

/// A trace: when each transfer of a plan left and came, on one clock. Beyond this schema, transfers must be those of
/// the plan with the fingerprint, columns must be equally long, and no time may be before the one that it follows.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "treefold trace, version 1")]
struct Document {
    /// The text `treefold-trace`.
    #[schemars(extend("const" = FORMAT))]
    format: String,
    /// The version of the format, which is 1.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// The name of the network of the plan.
    network: String,
    /// The name of the algorithm that made the plan.
    algorithm: String,
    /// The name of the collective that the plan computes.
    collective: String,
    /// A fingerprint of what the plan sends: 16 hexadecimal digits.
    #[schemars(extend("pattern" = "^[0-9a-f]{16}$"))]
    fingerprint: String,
    /// The number of ranks.
    ranks: u32,
    /// The size of the vector in bytes.
    #[schemars(range(max = MOST_BYTES))]
    size_bytes: u64,
    /// The seconds from the first byte that left to the last one that was received.
    #[schemars(range(min = 0))]
    time_s: f64,
    /// A bound in seconds of how far the clock of a rank may be from that of rank 0.
    #[schemars(range(min = 0))]
    clock_uncertainty_s: f64,
    /// An object of columns, which are lists with an item for each link of the network; if it is left out, how busy
    /// links were is computed from the transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    links: Option<LinkColumns>,
    /// An object of columns, which are lists with an item for each transfer.
    transfers: Columns,
}

/// The columns of links, in the order in which the network lists them.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "links")]
struct LinkColumns {
    /// A list of the seconds in which each link carried data, at whatever rate.
    #[schemars(inner(range(min = 0)))]
    busy_s: Vec<f64>,
    /// A list of the seconds that each link would have needed at its full rate, overheads included.
    #[schemars(inner(range(min = 0)))]
    full_rate_s: Vec<f64>,
}

/// The columns; all are equally long.
#[derive(Serialize, Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "transfers")]
struct Columns {
    /// A list of the number of the node that sends each transfer.
    source: Vec<u32>,
    /// A list of the number of the node that receives each transfer.
    target: Vec<u32>,
    /// A list of the number of each transfer's tree, counted from 0 over all phases.
    tree: Vec<u32>,
    /// A list of the phase of each transfer, counted from 0.
    phase: Vec<u16>,
    /// A list of the step of each transfer, counted from 1; 0 in streams.
    step: Vec<u16>,
    /// A list of the chunk of each transfer, counted from 0.
    chunk: Vec<u32>,
    /// A list that says of each transfer whether it carries a partial sum towards a root.
    reduces: Vec<bool>,
    /// A list of the bytes of each transfer.
    #[schemars(inner(range(min = 0, max = MOST_BYTES)))]
    bytes: Vec<f64>,
    /// A list of the seconds at which the first byte of each transfer left.
    #[schemars(inner(range(min = 0)))]
    start_s: Vec<f64>,
    /// A list of the seconds at which the last byte of each transfer left.
    #[schemars(inner(range(min = 0)))]
    sent_s: Vec<f64>,
    /// A list of the seconds at which the last byte of each transfer was received.
    #[schemars(inner(range(min = 0)))]
    received_s: Vec<f64>,
}

impl Trace {
    /// Returns the JSON Schema of trace files.
    ///
    /// ```
    /// let schema = treefold::sim::trace::Trace::schema();
    /// assert_eq!(schema["properties"]["format"]["const"], "treefold-trace");
    /// ```
    pub fn schema() -> Value {
        options::schema_of::<Document>()
    }

    /// Returns the text of a trace file; `plan` is what was run or simulated.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("ring", &ring, &Options::default())?;
    /// use treefold::sim::{Watch, flow::simulate, trace::Trace};
    /// use treefold::units::Bytes;
    ///
    /// let trace = simulate(&plan, Bytes::known(1 << 20), Watch::TRANSFERS)?;
    /// let read = Trace::from_json(&trace.to_json(&plan), &plan)?;
    /// assert_eq!((read.seconds, read.transfers), (trace.seconds, trace.transfers));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn to_json<'a>(&self, plan: impl Into<Walkable<'a>>) -> String {
        let plan = plan.into().draft();
        let document = Document {
            format: FORMAT.into(),
            version: VERSION,
            network: plan.topology.name().into(),
            algorithm: plan.algorithm.clone(),
            collective: plan.collective.to_string(),
            fingerprint: fingerprint(plan),
            ranks: plan.ranks(),
            size_bytes: self.size.get(),
            time_s: self.seconds.get(),
            clock_uncertainty_s: self.uncertainty.get(),
            links: Some(LinkColumns { busy_s: numbers(&self.occupied), full_rate_s: numbers(&self.carried) }),
            transfers: Columns::of(plan, &self.transfers),
        };
        serde_json::to_string(&document).expect("a trace is always valid JSON") + "\n"
    }

    /// Reads the text of a trace file.
    ///
    /// # Errors
    /// If the text is no trace file, has a later version, is of another plan, or has a transfer that the plan does not
    /// have or times that cannot be.
    pub fn from_json<'a>(text: &str, plan: impl Into<Walkable<'a>>) -> Result<Self> {
        let plan = plan.into();
        if !text.trim_start().starts_with('{') {
            bail!("not a trace, which is JSON and begins with '{{'; 'treefold.save' writes traces");
        }
        check_header(text, FORMAT, VERSION)?;
        let document: Document = misread::read(text)?;
        document.check_plan(plan.draft())?;
        let known = |name: &str, value| time(value).map_err(|error| error.at(name));
        let (seconds, uncertainty) =
            (known("time_s", document.time_s)?, known("clock_uncertainty_s", document.clock_uncertainty_s)?);
        let size = Bytes::new(document.size_bytes).map_err(|error| error.at("size_bytes"))?;
        let transfers = document.transfers.read(plan.draft(), seconds)?;
        let mut trace = Self { seconds, ..Self::measured(plan, size, transfers, uncertainty) };
        if let Some(links) = document.links {
            (trace.occupied, trace.carried) = links.read(plan.draft()).map_err(|error| error.at("links"))?;
        }
        Ok(trace)
    }
}

fn fingerprint(plan: &Draft) -> String {
    format!("{:016x}", plan.fingerprint())
}

impl Document {
    /// Refuses the trace of another plan.
    fn check_plan(&self, plan: &Draft) -> Result<()> {
        let (ours, algorithm, collective) = (fingerprint(plan), &plan.algorithm, &plan.collective);
        if self.fingerprint != ours || self.ranks != plan.ranks() {
            bail!(
                "the trace is of another plan: of one with the fingerprint {:?} for {} ranks, and this plan \
                 ({collective} by {algorithm}) has {ours} for {}; give the plan that was run",
                self.fingerprint,
                self.ranks,
                plan.ranks()
            );
        }
        Ok(())
    }
}

impl LinkColumns {
    fn read(&self, plan: &Draft) -> Result<(Vec<Seconds>, Vec<Seconds>)> {
        let read = |name: &str, column: &[f64]| {
            let links = plan.topology.num_capacities();
            if column.len() != links {
                bail!(
                    "{name} has {} items, but the network of the plan has {links} links and shared capacities; list all",
                    column.len()
                );
            }
            column.iter().map(|&seconds| time(seconds).map_err(|error| error.at(name))).collect()
        };
        Ok((read("busy_s", &self.busy_s)?, read("full_rate_s", &self.full_rate_s)?))
    }
}

fn numbers(times: &[Seconds]) -> Vec<f64> {
    times.iter().map(|time| time.get()).collect()
}

/// An edge of a tree that a transfer names: its tree, whether it reduces, and its ends.
type Named = (u32, bool, NodeId, NodeId);

/// Lists the edges of all trees with their phases, lanes and steps.
fn edges(plan: &Draft) -> HashMap<Named, (u16, LaneRef, Option<Step>)> {
    let mut known = HashMap::new();
    for (phase, number) in plan.phases.iter().zip(0..) {
        for (tree, id) in plan.trees_of(phase).iter().zip(phase.trees.start as u32..) {
            for direction in Direction::BOTH {
                for edge in plan.half(phase, tree, direction) {
                    let (source, target) = edge.ends(direction);
                    known.insert((id, direction == Direction::Up, source, target), (number, edge.lane, edge.step));
                }
            }
        }
    }
    known
}

impl Columns {
    fn of(plan: &Draft, transfers: &[Transfer]) -> Self {
        let mut columns = Self::default();
        for transfer in transfers {
            let (source, target) = plan.lanes.ends_of(transfer.lane);
            columns.source.push(source.0);
            columns.target.push(target.0);
            columns.tree.push(transfer.tree);
            columns.phase.push(transfer.phase);
            columns.step.push(step_number(transfer.step));
            columns.chunk.push(transfer.chunk);
            columns.reduces.push(transfer.reduces);
            columns.bytes.push(transfer.bytes);
            columns.start_s.push(transfer.start.get());
            columns.sent_s.push(transfer.sent.get());
            columns.received_s.push(transfer.received.get());
        }
        columns
    }

    fn read(&self, plan: &Draft, end: Seconds) -> Result<Vec<Transfer>> {
        self.check_lengths()?;
        let known = edges(plan);
        let one = |i: usize| self.transfer(i, &known, end).map_err(|error| error.at(format!("transfer {i}")));
        (0..self.source.len()).map(one).collect()
    }

    fn check_lengths(&self) -> Result<()> {
        let lengths = [
            ("target", self.target.len()),
            ("tree", self.tree.len()),
            ("phase", self.phase.len()),
            ("step", self.step.len()),
            ("chunk", self.chunk.len()),
            ("reduces", self.reduces.len()),
            ("bytes", self.bytes.len()),
            ("start_s", self.start_s.len()),
            ("sent_s", self.sent_s.len()),
            ("received_s", self.received_s.len()),
        ];
        let transfers = self.source.len();
        match lengths.into_iter().find(|&(_, length)| length != transfers) {
            Some((name, length)) => {
                bail!("transfers: source has {transfers} items, but {name} has {length}; list both of each transfer")
            }
            None => Ok(()),
        }
    }

    fn transfer(
        &self,
        i: usize,
        known: &HashMap<Named, (u16, LaneRef, Option<Step>)>,
        end: Seconds,
    ) -> Result<Transfer> {
        let (tree, reduces, ends) = (self.tree[i], self.reduces[i], [self.source[i], self.target[i]]);
        let half = if reduces { "reduces" } else { "broadcasts" };
        let Some(&(phase, lane, step)) = known.get(&(tree, reduces, NodeId(ends[0]), NodeId(ends[1]))) else {
            bail!("tree {tree} of the plan {half} nothing from node {} to node {}; count both from 0", ends[0], ends[1])
        };
        if (self.phase[i], self.step[i]) != (phase, step_number(step)) {
            let (given, should) = ((self.phase[i], self.step[i]), (phase, step_number(step)));
            bail!(
                "it has phase {} and step {}, and the plan sends it in phase {} and step {}",
                given.0,
                given.1,
                should.0,
                should.1
            );
        }
        let bytes = self.bytes[i];
        if !(0.0..=MOST_BYTES).contains(&bytes) {
            bail!("bytes must be from 0 to {MOST_BYTES:e}, got {bytes}");
        }
        let [start, sent, received] = [self.start_s[i], self.sent_s[i], self.received_s[i]];
        let times = [time(start)?, time(sent)?, time(received)?];
        if !(times.is_sorted() && times[2] <= end) {
            bail!(
                "start_s <= sent_s <= received_s <= time_s does not hold: they are {start}, {sent}, {received} and {}",
                end.get()
            );
        }
        let [start, sent, received] = times;
        Ok(Transfer { lane, tree, phase, step, chunk: self.chunk[i], reduces, bytes, start, sent, received })
    }
}

/// Returns a time of a file, which is finite.
fn time(seconds: f64) -> Result<Seconds> {
    if seconds.is_infinite() {
        return Err(Error::new(format!("time must be finite, got {seconds}")));
    }
    Seconds::new(seconds)
}
