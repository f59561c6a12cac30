//! The watch over links that no operation uses: how long round trips take, and how fast idle links are.
//!
//! A rank asks its neighbours once a second, on connections that carry no data. It probes one idle link after the
//! other, and hardly ever, so that operations beside it are not disturbed.

use std::time::{Duration, Instant};

use super::connection::Connection;
use super::probe::{MEASURED, Probe};
use super::{LinkUsage, Mesh};
use crate::ids::NodeId;
use crate::run::tcp::frame::{Frame, Kind};
use crate::run::tcp::window::Window;
use crate::units::Seconds;

/// How often a rank asks how long a round trip takes.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A probe is followed by a pause of so many times its length: it disturbs a rank 3 % of the time at most.
const PAUSE: u32 = 30;

/// What a rank of an adaptive group watches.
pub struct Watch {
    /// The ranks behind idle links.
    idle: Vec<NodeId>,
    /// Which of them is the next one to probe.
    next: usize,
    /// The rank that is being probed, and since when.
    probing: Option<(NodeId, Instant)>,
    /// When the next probe may begin.
    probe_at: Instant,
    /// The results since the last call.
    results: Vec<LinkUsage>,
}

impl Mesh {
    /// Watches the connections from now on. Those to the ranks `idle`, which the plan does not use, are probed.
    pub fn watch(&mut self, idle: Vec<NodeId>) {
        let probe_at = Instant::now() + PAUSE * MEASURED;
        let watch =
            self.watch.get_or_insert(Watch { idle: Vec::new(), next: 0, probing: None, probe_at, results: Vec::new() });
        watch.idle = idle;
    }

    /// Returns the rates of idle links that were measured since the last call.
    pub fn probes(&mut self) -> Vec<LinkUsage> {
        self.watch.as_mut().map(|watch| std::mem::take(&mut watch.results)).unwrap_or_default()
    }

    /// Returns the least of the last few round trips to each neighbour, where enough are known.
    pub fn round_trips(&self) -> Vec<(NodeId, Duration)> {
        let connections = NodeId::first(self.connections.len()).zip(&self.connections);
        connections.filter_map(|(rank, connection)| Some((rank, connection.as_ref()?.trips.least()?))).collect()
    }

    /// Does what is due.
    pub(super) fn keep_watch(&mut self) {
        let Some(mut watch) = self.watch.take() else { return };
        let now = Instant::now();
        self.ask(now);
        self.probe(&mut watch, now);
        self.watch = Some(watch);
    }

    /// Asks the neighbours whose connections carry no data.
    fn ask(&mut self, now: Instant) {
        for rank in NodeId::first(self.connections.len()) {
            let Some(connection) = &mut self.connections[rank] else { continue };
            let is_busy = is_busy(&self.flights, rank);
            if !is_busy && connection.probe.is_none() && connection.flushed() && connection.trips.is_due(now, ASK_EVERY)
            {
                let number = connection.trips.ask(now, connection.received);
                connection.queue_once(question(Kind::Ask, number, self.rank));
            }
        }
    }

    /// Ends a probe that is over, or begins one that is due.
    fn probe(&mut self, watch: &mut Watch, now: Instant) {
        if let Some((rank, begun)) = watch.probing {
            let is_at_work = |connection: &&mut Connection| connection.probe.is_some() && !connection.has_probed(now);
            let Some(connection) = self.connections[rank].as_mut().filter(is_at_work) else {
                let ended = self.connections[rank].as_mut().and_then(|connection| connection.probe.take());
                let measured = ended.and_then(|probe| probe.measured());
                watch.results.extend(measured.map(|(bytes, time)| LinkUsage {
                    rank,
                    bytes,
                    seconds: Seconds::known(time.as_secs_f64()),
                    course: Vec::new(),
                }));
                (watch.probing, watch.probe_at) = (None, now + PAUSE * (now - begun).max(MEASURED));
                return;
            };
            if is_busy(&self.flights, rank) {
                connection.probe.iter_mut().for_each(Probe::stop);
            }
        } else if now >= watch.probe_at && !watch.idle.is_empty() {
            let rank = watch.idle[watch.next % watch.idle.len()];
            watch.next = watch.next.wrapping_add(1);
            // A peer that answers reads what comes; the buffers of one that does not would stay full.
            let connection = self.connections[rank].as_mut().filter(|_| !is_busy(&self.flights, rank));
            let found = connection.and_then(|connection| Some((connection.trips.fresh()?, connection)));
            if let Some((round_trip, connection)) = found
                && connection.begin_probe(Probe::new(now, round_trip)).is_ok()
            {
                watch.probing = Some((rank, now));
            }
        }
    }
}

/// Returns whether an operation in flight has something to do with a rank.
fn is_busy(flights: &Window, rank: NodeId) -> bool {
    flights.iter().any(|flight| flight.pairings[rank].is_some())
}

/// Returns the frame that asks, or answers, how long a round trip takes.
pub(super) fn question(kind: Kind, number: u32, origin: NodeId) -> Vec<u8> {
    Frame::new(kind, 0, number, origin).to_bytes().to_vec()
}
