//! What transfers wait for, the order in which they are listed, and the critical path, on random networks and plans.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::common::networks::{cases, networks, options, plans};
use crate::common::oracle::{self, key_of};
use crate::common::planned;
use proptest::prelude::*;
use proptest::sample::select;
use treefold::plan::{Chunk, Collective, Direction, Draft, EdgeColumns, LaneRoutes, Plan, derive, lower};
use treefold::planners::Options;
use treefold::random::Random;
use treefold::sim::causes::causes;
use treefold::sim::critical::{PathSummary, critical_path, path_summary};
use treefold::sim::listing::{Listed, Listing};
use treefold::sim::trace::{Trace, Transfer};
use treefold::sim::{Job, Watch, flow, packet};
use treefold::topology::{LinkModel, NodeId, Topology};
use treefold::units::{Bytes, Seconds};

/// All counts of chunks that these tests use divide this.
const MOST_CUTS: u64 = 3 * 5;

/// A plan, its trace, and what is found of them.
struct Seen<'a> {
    plan: &'a Plan,
    trace: Trace,
    listing: Listing,
    causes: Vec<Option<Listed>>,
}

impl<'a> Seen<'a> {
    fn new(plan: &'a Plan, trace: Trace) -> Self {
        let listing = Listing::new(plan, &trace.transfers).unwrap();
        let causes = causes(plan, &trace.transfers, &listing, &mut || true).unwrap();
        Self { plan, trace, listing, causes }
    }

    fn by_flow(plan: &'a Plan, size: u64) -> Self {
        Self::new(plan, flow::simulate(plan, Bytes::known(size), Watch::TRANSFERS).unwrap())
    }

    fn get(&self, number: Listed) -> &Transfer {
        self.listing.get(&self.trace.transfers, number)
    }

    fn path(&self) -> (Vec<Listed>, PathSummary) {
        let path = critical_path(&self.trace, &self.listing, &self.causes);
        let summary = path_summary(self.plan, &self.trace, &self.listing, &path);
        (path, summary)
    }

    /// How long after the end of its cause each transfer starts, in parts of the whole time.
    fn gaps(&self) -> Vec<f64> {
        let gap = |number: Listed| {
            let transfer = self.get(number);
            let end = self.causes[number].map_or(Seconds::ZERO, |cause| self.end(cause, transfer));
            (transfer.start.get() - end.get()) / self.trace.seconds.get()
        };
        self.listing.ids().map(gap).collect()
    }

    /// When a cause let a transfer start: when it was received there, or when it had left.
    fn end(&self, cause: Listed, later: &Transfer) -> Seconds {
        let (cause, lanes) = (self.get(cause), &self.plan.lanes);
        let brings_data = lanes.ends_of(cause.lane).1 == lanes.ends_of(later.lane).0;
        if brings_data { cause.received } else { cause.sent }
    }

    fn who(&self) -> String {
        let Self { plan, trace, .. } = self;
        format!("{} {} of {} on {}", plan.algorithm, plan.collective, trace.size, plan.topology.to_json())
    }
}

/// Any collective of any plan for a network, with few chunks.
fn any_plans(topology: &Topology, options: &Options, (collective, root): (Collective, u32)) -> Vec<Plan> {
    let topology = Arc::new(topology.under(LinkModel::Propagation));
    let root = NodeId(root % topology.ranks());
    let derived = plans(&topology, options).into_iter().filter_map(|plan| derive(plan, collective, root).ok());
    derived.map(|plan| with_chunks(plan, 1 + options.seed as u32 * 2)).collect()
}

/// Cuts what a plan streams into so many chunks.
fn with_chunks(plan: Plan, count: u32) -> Plan {
    let mut cut = Draft::from(plan.clone());
    for phase in plan.phases.iter().filter(|phase| phase.pace.is_stream()) {
        cut.trees[phase.trees.clone()].iter_mut().for_each(|tree| tree.chunk = Chunk::Count(count));
    }
    cut.unchecked()
}

fn collectives() -> impl Strategy<Value = (Collective, u32)> {
    (prop_oneof![Just(Collective::AllReduce), select(Collective::ALL.to_vec())], any::<u32>())
}

fn sizes() -> impl Strategy<Value = u64> {
    (0..24u32).prop_flat_map(|bits| (1u64 << bits)..(2u64 << bits))
}

/// Every transfer is listed once, at the first edge that it serves, chunk by chunk; every edge has its own, or shares
/// one.
fn assert_listed(seen: &Seen) {
    let Seen { plan, trace, listing, .. } = seen;
    let mut places = listing.order.clone();
    places.sort_unstable();
    assert!(places.into_iter().eq(0..trace.transfers.len() as u32), "each once: {}", seen.who());
    let edges = EdgeColumns::new(plan);
    assert_eq!(edges.half_start, listing.half_start);
    let mut next = 0;
    for tree in 0..plan.trees.len() {
        for (direction, edge) in
            Direction::BOTH.map(|half| listing.edges_of(tree, half).map(move |edge| (half, edge))).into_iter().flatten()
        {
            let numbers = listing.of_edge(edge);
            assert_eq!(numbers.is_empty(), plan.trees[tree].units() == 0, "edge {edge}: {}", seen.who());
            for (chunk, number) in numbers.clone().enumerate() {
                let transfer = seen.get(Listed::new(number));
                assert_eq!(
                    (transfer.lane, transfer.step, transfer.chunk),
                    (edges.lane[edge], edges.step[edge], chunk as u32)
                );
                let is_own = (transfer.tree as usize, transfer.reduces) == (tree, direction == Direction::Up);
                assert!(is_own == (numbers.start >= next), "edge {edge} of tree {tree}: {}", seen.who());
            }
            next = next.max(numbers.end);
        }
    }
    assert_eq!(next as usize, trace.transfers.len());
}

/// Without a reason a transfer starts at once, and else when its cause ends.
fn assert_explained(seen: &Seen) {
    for (number, gap) in seen.listing.ids().zip(seen.gaps()) {
        assert!(gap == 0.0, "{:?} starts {gap} late: {}", seen.get(number), seen.who());
    }
}

/// The cause of each transfer is among the messages that the oracle makes it wait for. Only where phases follow each
/// other it may be another, which ended in the same moment: one that brings another part of the vector to the node.
fn assert_true_causes(seen: &Seen) {
    let Seen { plan, trace, .. } = seen;
    let messages = oracle::messages(plan, &lower(*plan, plan.units * MOST_CUTS, 1).unwrap(), trace.size.get());
    let of_key: HashMap<_, _> = messages.iter().map(|message| (message.key, message)).collect();
    for (number, cause) in seen.listing.ids().zip(&seen.causes).filter_map(|(number, cause)| Some((number, (*cause)?)))
    {
        let (transfer, cause) = (seen.get(number), seen.get(cause));
        let is_awaited = of_key[&key_of(transfer)].waits_for().any(|before| messages[before].key == key_of(cause));
        let may_differ = transfer.phase > 0;
        assert!(is_awaited || may_differ, "{transfer:?} does not wait for {cause:?}: {}", seen.who());
    }
}

/// The parts of the critical path add up to the time, and each of its transfers causes the next.
fn assert_path(seen: &Seen) {
    let (path, PathSummary { transfers, sending, latency, waiting, time }) = seen.path();
    assert_eq!((transfers, time), (path.len(), seen.trace.seconds));
    let rounding = 1e-9 * time.get();
    let sum = sending.get() + latency.get() + waiting.get();
    assert!((sum - time.get()).abs() <= rounding, "{sum} s of {time}: {}", seen.who());
    assert!(path.windows(2).all(|pair| seen.causes[pair[1]] == Some(pair[0])));
    assert!(path.windows(2).all(|pair| seen.get(pair[0]).start <= seen.get(pair[1]).start));
    assert!(path.iter().collect::<HashSet<_>>().len() == path.len() && path.is_empty() == seen.listing.is_empty());
    assert!(path.first().is_none_or(|&first| seen.causes[first].is_none()));
    let last = seen.trace.transfers.iter().map(|transfer| transfer.received).max();
    assert_eq!(path.last().map(|&last| seen.get(last).received), last);
}

proptest! {
    #![proptest_config(cases(100))]

    /// The flow simulator starts a transfer in the moment in which the last thing that it waits for ends, so each start
    /// is explained, without exception, and nothing on the critical path waits for anything else.
    #[test]
    fn causes_explain_every_start_in_the_flow_simulator(
        topology in networks(), options in options(), collective in collectives(), size in sizes(),
    ) {
        for plan in any_plans(&topology, &options, collective) {
            // As many bytes as make every message take a time that can be told from none.
            let seen = Seen::by_flow(&plan, size.max(plan.units));
            assert_listed(&seen);
            assert_explained(&seen);
            assert_path(&seen);
            assert!(seen.path().1.waiting.get() <= 1e-9 * seen.trace.seconds.get());
        }
    }

    #[test]
    fn causes_are_what_the_oracle_waits_for(
        topology in networks(), options in options(), collective in collectives(), size in (20..26u32),
    ) {
        for plan in any_plans(&topology, &options, collective) {
            let size = plan.units.max(1 << size);
            assert_true_causes(&Seen::by_flow(&plan, size));
        }
    }

    /// Packets wait for more than plans say, such as adders and interfaces, so that causes end before the start.
    /// Nothing starts before its cause has ended, and the path adds up.
    #[test]
    fn paths_of_the_packet_simulator_add_up(
        topology in networks(), options in options(), collective in collectives(), size in 1u64..20_000,
    ) {
        for plan in any_plans(&topology, &options, collective) {
            let machine = packet::Options::default();
            let Ok(outcome) = packet::simulate(&plan, Bytes::known(size), &machine, Watch::TRANSFERS) else { continue };
            let seen = Seen::new(&plan, outcome.trace);
            assert!(seen.gaps().into_iter().all(|gap| gap >= -1e-9), "{}", seen.who());
            assert_path(&seen);
        }
    }

    /// Wherever transfers come from, and in whatever order, they are listed alike.
    #[test]
    fn the_order_of_a_trace_means_nothing(topology in networks(), options in options(), seed in any::<u64>()) {
        for plan in any_plans(&topology, &options, (Collective::AllReduce, 0)) {
            let seen = Seen::by_flow(&plan, 100_000);
            let mut trace = seen.trace.clone();
            let mut random = Random::new(seed);
            trace.transfers.sort_by_cached_key(|_| random.bits());
            let other = Seen::new(&plan, trace);
            let listed = |seen: &Seen| seen.listing.ids().map(|number| *seen.get(number)).collect::<Vec<_>>();
            assert_eq!(listed(&seen), listed(&other), "{}", seen.who());
            assert_eq!(seen.causes, other.causes, "{}", seen.who());
        }
    }
}

/// Each of two ranks sends half its vector, adds what it gets to the other half, and sends the sum back.
#[test]
fn the_path_of_a_line_goes_to_its_end_and_back() {
    let plan = planned("ring", "line:2");
    let seen = Seen::by_flow(&plan, 1 << 20);
    let (path, summary) = seen.path();
    let [first, last] = path[..] else { panic!("two steps: {path:?}") };
    assert_eq!((seen.get(first).reduces, seen.get(last).reduces), (true, false));
    let link = &plan.topology.links()[0];
    let sending = (1 << 20) as f64 / link.bandwidth.bytes_per_second();
    assert!((summary.sending.get() / sending - 1.0).abs() < 1e-9, "half a vector, twice");
    assert!((summary.latency.get() / (2.0 * link.latency.seconds()) - 1.0).abs() < 1e-9);
}

/// A message that carries parts of several trees stands at the first of them, and all of them know it.
#[test]
fn trees_that_share_messages_share_transfers() {
    for algorithm in ["halving-doubling", "exchange"] {
        let plan = planned(algorithm, "ring:8");
        let seen = Seen::by_flow(&plan, 1 << 20);
        let edges = seen.listing.edge_transfer.len();
        assert!(seen.listing.len() < edges, "{algorithm}: {} transfers on {edges} edges", seen.listing.len());
        let of_trees = (0..plan.trees.len()).flat_map(|tree| seen.listing.transfers_of_tree(tree).unwrap());
        assert_eq!(of_trees.collect::<HashSet<_>>().len(), seen.listing.len(), "{algorithm}");
        let links =
            (0..plan.topology.links().len()).map(|link| seen.listing.transfers_of_link(&plan, link).unwrap().len());
        assert_eq!(links.sum::<usize>(), hops(&seen), "{algorithm}");
    }
}

/// How many links all transfers together take.
fn hops(seen: &Seen) -> usize {
    let routes = LaneRoutes::new(&seen.plan.topology, &seen.plan.lanes);
    seen.trace.transfers.iter().map(|transfer| routes.of(transfer.lane).len()).sum()
}

/// Jobs that run together are listed each by its own plan; what another job's messages hold up is not explained.
#[test]
fn jobs_have_causes_of_their_own() {
    let plans = ["ring", "dbtree"].map(|algorithm| planned(algorithm, "torus:3x3"));
    let jobs = plans.each_ref().map(|plan| Job::new(plan, Bytes::known(1 << 20)));
    let traces = flow::simulate_together(&jobs, None, Watch::TRANSFERS).unwrap();
    for (plan, trace) in plans.iter().zip(traces) {
        let seen = Seen::new(plan, trace);
        assert_explained(&seen);
        assert_path(&seen);
    }
}

#[test]
fn what_was_not_recorded_is_empty() {
    let plan = planned("ring", "ring:4");
    for (size, watch) in [(4096, Watch::NOTHING), (0, Watch::TRANSFERS)] {
        let seen = Seen::new(&plan, flow::simulate(&plan, Bytes::known(size), watch).unwrap());
        let summary = seen.path().1;
        assert_eq!((seen.listing.len(), seen.causes.len(), summary.transfers), (0, 0, 0));
        assert_eq!(summary.waiting, seen.trace.seconds, "nobody knows what it was spent on");
        assert!(seen.listing.edge_transfer.iter().all(Option::is_none));
        assert_eq!(seen.listing.transfers_of_tree(0).unwrap(), [0; 0]);
    }
}

#[test]
fn transfers_of_another_plan_are_refused() {
    let [ring, other] = ["ring", "direct"].map(|algorithm| planned(algorithm, "ring:4"));
    let trace = flow::simulate(&ring, Bytes::known(4096), Watch::TRANSFERS).unwrap();
    let refused = Listing::new(&other, &trace.transfers).unwrap_err().to_string();
    assert!(refused.ends_with("but on no edge of it; the trace is not of this plan"), "{refused}");
    let mut transfers = trace.transfers.clone();
    transfers[5].tree = 4;
    let refused = Listing::new(&ring, &transfers).unwrap_err().to_string();
    assert_eq!(refused, "transfer 5 is of tree 4, but the plan has 4, counted from 0");
    let transfers = &trace.transfers[..7];
    assert_eq!(Listing::new(&ring, transfers).unwrap().len(), 7, "some may be missing");
}

#[test]
fn whoever_looks_for_causes_can_be_interrupted() {
    let plan = planned("multitree", "torus:4x4");
    let trace = flow::simulate(&plan, Bytes::known(1 << 20), Watch::TRANSFERS).unwrap();
    let listing = Listing::new(&plan, &trace.transfers).unwrap();
    for patience in [0, 3, 16] {
        let mut asked = 0;
        let mut go_on = || {
            asked += 1;
            asked <= patience
        };
        let stopped = causes(&plan, &trace.transfers, &listing, &mut go_on).unwrap_err();
        assert!(stopped.is_interrupted());
    }
}
