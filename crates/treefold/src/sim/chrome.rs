//! A trace in the Chrome trace event format, which Perfetto and chrome://tracing open: a track per link and direction.
//!
//! Transfers that share a link overlap, which one track cannot show: while they do, the others go to tracks beside it.
//! Where transfers are too many to list, as in in-network plans by the packet simulator, what was sampled is counters.

use std::fmt::Write;
use std::num::NonZeroU16;

use super::samples::{Samples, name_of};
use super::trace::{Trace, Transfer};
use crate::plan::{Draft, LaneRoutes, Walkable};
use crate::topology::LinkId;
use crate::units::Seconds;

/// Writes the transfers of jobs that ran together, each a plan and its trace, as JSON: every job is a process with
/// tracks of its own. Times are in microseconds, as the format wants them.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners::{self, Options};
/// use treefold::sim::{Watch, chrome, flow};
/// use treefold::topology::from_spec;
/// use treefold::units::parse_bytes;
///
/// let line = Arc::new(from_spec("line:2", None, None)?);
/// let plan = planners::plan("ring", &line, &Options::default())?;
/// let trace = flow::simulate(&plan, parse_bytes("1MiB")?, Watch::TRANSFERS)?;
/// let track: serde_json::Value = serde_json::from_str(&chrome::to_chrome(&[(&plan, &trace)])).unwrap();
/// let events = track["traceEvents"].as_array().unwrap();
/// assert_eq!(events.iter().filter(|event| event["ph"] == "X").count(), trace.transfers.len());
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn to_chrome<'a>(jobs: &[(impl Into<Walkable<'a>> + Copy, &Trace)]) -> String {
    let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for (pid, &(plan, trace)) in (1..).zip(jobs) {
        let plan = plan.into().draft();
        let title = format!("{} by {} on {}, {}", plan.collective, plan.algorithm, plan.topology.name(), trace.size);
        let title = if jobs.len() > 1 { format!("job {pid}: {title}") } else { title };
        write_job(plan, trace, pid, &title, &mut text);
        text.push_str(if pid == jobs.len() { "\n" } else { ",\n" });
    }
    text.push_str("]}\n");
    text
}

/// Writes the events of a job as process `pid`, without a line's end behind them.
fn write_job(plan: &Draft, trace: &Trace, pid: usize, title: &str, text: &mut String) {
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let mut tracks = Tracks::new(plan.topology.links().len());
    let mut order: Vec<&Transfer> = trace.transfers.iter().collect();
    order.sort_by_key(|transfer| transfer.start);
    for transfer in order {
        let event = event(transfer);
        for &link in routes.of(transfer.lane) {
            let tid = tracks.take(link, transfer);
            writeln!(text, "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},{event}}},").expect("writing to a string");
        }
    }
    if trace.transfers.is_empty() {
        trace.samples.iter().for_each(|samples| write_counters(samples, plan, trace, pid, text));
    }
    tracks.describe(plan, trace, pid, text);
    let (name, seconds) = (quoted(title), trace.seconds.get());
    let meta = format!("\"pid\":{pid},\"name\":\"process_name\",\"args\":{{\"name\":{name},\"time_s\":{seconds:e}}}");
    write!(text, "{{\"ph\":\"M\",{meta}}}").expect("writing to a string");
}

/// The windows of counters.
const WINDOWS: usize = 128;

/// Writes the values of a quantity that was sampled, each time that one changes.
fn write_counters(samples: &Samples, plan: &Draft, trace: &Trace, pid: usize, text: &mut String) {
    let quantity = samples.quantity;
    let unit = if quantity.unit().is_empty() { "share" } else { quantity.unit() };
    for (place, row) in samples.over(WINDOWS).chunks_exact(WINDOWS).enumerate() {
        let name = quoted(&format!("{}: {}", name_of(quantity.of(), place, &plan.topology), quantity.name()));
        let mut before = 0.0;
        for (window, &value) in row.iter().chain([&0.0]).enumerate() {
            if value == before {
                continue;
            }
            let at = trace.seconds.get() * 1e6 * window as f64 / WINDOWS as f64;
            let event = format!("\"ph\":\"C\",\"pid\":{pid},\"ts\":{at:.6},\"name\":{name}");
            writeln!(text, "{{{event},\"args\":{{\"{unit}\":{value}}}}},").expect("writing to a string");
            before = value;
        }
    }
}

/// Writes what is the same on every link of a transfer's route.
fn event(transfer: &Transfer) -> String {
    let &Transfer { tree, phase, step, chunk, bytes, .. } = transfer;
    let kind = if transfer.reduces { "reduce" } else { "broadcast" };
    let number = step.map_or_else(|| format!("chunk {chunk}"), |step| format!("step {step}"));
    let step = step.map_or(0, NonZeroU16::get);
    let [start, duration, received] =
        [transfer.start, transfer.sent - transfer.start, transfer.received].map(|time| time.get() * 1e6);
    format!(
        "\"ts\":{start:.6},\"dur\":{duration:.6},\"name\":\"{kind} tree {tree}, {number}\",\"cat\":\"{kind}\",\
         \"args\":{{\
         \"tree\":{tree},\"phase\":{phase},\"step\":{step},\"chunk\":{chunk},\
         \"bytes\":{bytes},\"received_us\":{received:.6}}}"
    )
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A track that a link's transfers are drawn on.
struct Track {
    id: usize,
    /// When its last transfer ended.
    end: Seconds,
}

/// The tracks of every link.
struct Tracks {
    of_link: Vec<Vec<Track>>,
    next_id: usize,
}

impl Tracks {
    /// Makes one track a link, numbered from 1.
    fn new(links: usize) -> Self {
        Self { of_link: (1..=links).map(|id| vec![Track { id, end: Seconds::ZERO }]).collect(), next_id: links + 1 }
    }

    /// Takes a track of `link` that is free when `transfer` starts; returns its number.
    fn take(&mut self, link: LinkId, transfer: &Transfer) -> usize {
        let tracks = &mut self.of_link[link];
        let rounding = transfer.sent * 1e-12;
        if let Some(track) = tracks.iter_mut().find(|track| track.end <= transfer.start + rounding) {
            track.end = transfer.sent;
            return track.id;
        }
        let id = self.next_id;
        self.next_id += 1;
        tracks.push(Track { id, end: transfer.sent });
        id
    }

    /// Names every track after its link and puts those of a link together.
    fn describe(&self, plan: &Draft, trace: &Trace, pid: usize, text: &mut String) {
        for (link, tracks) in self.of_link.iter().enumerate() {
            let (occupied, carried) = (trace.occupied[link].get(), trace.carried[link].get());
            for (beside, Track { id: tid, .. }) in tracks.iter().enumerate() {
                let mut name = plan.topology.describe_link(LinkId::new(link));
                if beside > 0 {
                    write!(name, " ({})", beside + 1).expect("writing to a string");
                }
                let name = quoted(&name);
                let meta = |kind: &str, args: String| {
                    format!("{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{kind}\",\"args\":{{{args}}}}},\n")
                };
                let busy = format!("\"name\":{name},\"occupied_s\":{occupied:e},\"carried_s\":{carried:e}");
                text.push_str(&meta("thread_name", busy));
                text.push_str(&meta("thread_sort_index", format!("\"sort_index\":{link}")));
            }
        }
    }
}
