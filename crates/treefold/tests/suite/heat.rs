//! How busy links are in windows of time, against a count by brute force and against what the simulator says.

use crate::common::networks::{cases, networks, options, plans};
use crate::common::planned;
use proptest::prelude::*;
use treefold::plan::{LaneRoutes, Plan};
use treefold::sim::heat::heat;
use treefold::sim::trace::Trace;
use treefold::sim::{Job, Watch, flow};
use treefold::units::{Bytes, Seconds};

fn trace(plan: &Plan, size: u64) -> Trace {
    flow::simulate(plan, Bytes::known(size), Watch::TRANSFERS).unwrap()
}

/// The fraction of a window in which a link is busy: all moments are tried at which that changes.
fn busy_by_hand(plan: &Plan, trace: &Trace, link: usize, window: [f64; 2]) -> f64 {
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let on_link =
        trace.transfers.iter().filter(|transfer| routes.of(transfer.lane).iter().any(|on| on.index() == link));
    let spans: Vec<[f64; 2]> = on_link.map(|transfer| [transfer.start.get(), transfer.sent.get()]).collect();
    let mut moments: Vec<f64> = spans.iter().flatten().chain(&window).copied().collect();
    moments.retain(|&moment| (window[0]..=window[1]).contains(&moment));
    moments.sort_by(f64::total_cmp);
    let is_busy = |middle: f64| spans.iter().any(|span| span[0] < middle && middle < span[1]);
    let pieces = moments.windows(2).filter(|piece| is_busy((piece[0] + piece[1]) / 2.0));
    pieces.map(|piece| piece[1] - piece[0]).sum::<f64>() / (window[1] - window[0])
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn windows_add_up_to_what_was_occupied(
        topology in networks(), options in options(), size in 1u64..1_000_000, windows in 1..100usize,
    ) {
        for plan in plans(&topology, &options) {
            let trace = trace(&plan, size.max(plan.units));
            let heat = heat(&plan, &trace.transfers, trace.seconds, windows);
            let width = trace.seconds.get() / windows as f64;
            for (row, occupied) in heat.chunks(windows).zip(&trace.occupied) {
                prop_assert!(row.iter().all(|busy| (0.0..=1.0).contains(busy)));
                let sum = row.iter().map(|&busy| f64::from(busy)).sum::<f64>() * width;
                let who = format!("{} on {}", plan.algorithm, plan.topology.to_json());
                prop_assert!((sum - occupied.get()).abs() <= 1e-6 * trace.seconds.get(), "{sum} s, {occupied}: {who}");
            }
        }
    }
}

#[test]
fn windows_are_as_busy_as_by_hand() {
    for (algorithm, network, windows) in [("dbtree", "mesh:3x3", 7), ("ring", "fattree:2,3", 5), ("ps", "b4", 10)] {
        let plan = planned(algorithm, network);
        let trace = trace(&plan, 20_000);
        let heat = heat(&plan, &trace.transfers, trace.seconds, windows);
        let end = |window: usize| trace.seconds.get() * window as f64 / windows as f64;
        for (place, &busy) in heat.iter().enumerate() {
            let (link, window) = (place / windows, place % windows);
            let expected = busy_by_hand(&plan, &trace, link, [end(window), end(window + 1)]);
            assert!((f64::from(busy) - expected).abs() < 1e-6, "{algorithm}, link {link}: {busy}, {expected} by hand");
        }
    }
}

/// What a job's links are occupied by others does not count as its own.
#[test]
fn a_job_heats_the_links_that_it_uses() {
    let plans = [planned("ring", "ring:4"), planned("ps", "ring:4")];
    let jobs = plans.each_ref().map(|plan| Job::new(plan, Bytes::known(1 << 20)));
    let traces = flow::simulate_together(&jobs, None, Watch::TRANSFERS).unwrap();
    let busy = heat(&plans[0], &traces[0].transfers, traces[0].seconds, 1);
    assert_eq!(busy.iter().filter(|&&busy| busy > 0.0).count(), 4, "the ring goes one way");
    assert!(traces[0].occupied.iter().filter(|&&occupied| occupied > Seconds::ZERO).count() > 4);
}

#[test]
fn nothing_is_busy_where_nothing_is_sent() {
    let plan = planned("ring", "ring:4");
    let trace = trace(&plan, 0);
    assert_eq!(heat(&plan, &trace.transfers, trace.seconds, 2), [0.0; 16]);
}
