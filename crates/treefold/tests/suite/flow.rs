//! The flow simulator where its times can be computed by hand: closed forms, and links that messages share.

use std::sync::Arc;

use crate::common::{accelerators, flow_seconds, half, spec, tree};
use treefold::bound::bounds;
use treefold::plan::alpha_beta::Profile;
use treefold::plan::{Chunk, Draft, Half, Pace, Plan, Sharing};
use treefold::planners::{self, Options};
use treefold::sim::{Watch, flow};
use treefold::topology::{Abilities, Link, LinkId, LinkModel, Node, NodeId, Shape, Topology};
use treefold::units::{Bandwidth, Bytes, Seconds, Time};

fn assert_near(seen: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((seen - expected).abs() <= tolerance * expected, "{what}: {seen}, should be {expected}");
}

/// Both simulators give `expected` seconds for `size` bytes, whatever the latency means.
fn assert_closed_form(plan: &Plan, size: u64, expected: f64) {
    let what = format!("{} of {size} bytes on {}", plan.algorithm, plan.topology.name());
    assert_near(flow_seconds(plan, size), expected, 1e-9, &format!("flow, {what}"));
    assert_near(Profile::new(plan).seconds(Bytes::known(size)).get(), expected, 1e-3, &format!("analytic, {what}"));
}

const SIZES: [u64; 4] = [1, 1 << 12, 1 << 20, 1 << 28];
const LINK_MODELS: [LinkModel; 2] = [LinkModel::Propagation, LinkModel::Hockney];

/// The plan of an algorithm for the network of a spec as a link model sees it; latency and bandwidth of its links.
fn planned_under(algorithm: &str, text: &str, model: LinkModel) -> (Plan, f64, f64) {
    let topology = Arc::new(spec(text).under(model));
    let (latency, bandwidth) =
        (topology.link(LinkId(0)).delay().seconds(), topology.link(LinkId(0)).bandwidth.bytes_per_second());
    (planners::plan(algorithm, &topology, &Options::default()).unwrap(), latency, bandwidth)
}

#[test]
fn a_ring_takes_its_closed_form() {
    for (ranks, model) in [2u32, 3, 8, 24].into_iter().flat_map(|ranks| LINK_MODELS.map(|model| (ranks, model))) {
        let (plan, latency, bandwidth) = planned_under("ring", &format!("ring:{ranks}"), model);
        let n = f64::from(ranks);
        for size in SIZES {
            assert_closed_form(&plan, size, 2.0 * (n - 1.0) * (latency + size as f64 / (n * bandwidth)));
        }
    }
}

#[test]
fn halving_doubling_on_a_hypercube_takes_its_closed_form() {
    for (dimensions, model) in (1..=5).flat_map(|dimensions| LINK_MODELS.map(|model| (dimensions, model))) {
        let (plan, latency, bandwidth) = planned_under("halving-doubling", &format!("hypercube:{dimensions}"), model);
        for size in SIZES {
            let step = |i: i32| latency + size as f64 / 2f64.powi(i) / bandwidth;
            assert_closed_form(&plan, size, 2.0 * (1..=dimensions).map(step).sum::<f64>());
        }
    }
}

#[test]
fn a_chain_takes_the_formula_of_pipelines() {
    for model in LINK_MODELS {
        for (hops, chunks) in [(1u32, 1u32), (1, 7), (4, 1), (4, 7), (9, 100)] {
            let topology = Arc::new(spec(&format!("line:{}", hops + 1)).under(model));
            let mut plan = Draft::new(&topology, "chain", 1);
            let edges: Vec<_> = (0..hops).map(|rank| (rank, rank + 1, 0)).collect();
            let down = half(&mut plan, &edges);
            let chain = treefold::plan::Tree { chunk: Chunk::Count(chunks), ..tree(0..1, 0, Half::None, down) };
            plan.push_phase(Pace::Stream, vec![chain]);
            let (plan, link) = (plan.unchecked(), topology.link(LinkId(0)));
            for size in SIZES {
                let chunk = size as f64 / f64::from(chunks) / link.bandwidth.bytes_per_second();
                let first = f64::from(hops) * (link.delay().seconds() + chunk);
                let others = f64::from(chunks - 1) * (link.overhead.seconds() + chunk);
                assert_closed_form(&plan, size, first + others);
            }
        }
    }
}

/// Both ways of both Hamiltonian cycles use every link alike, so that only latency keeps the plan from the bound.
#[test]
fn multiring_on_a_torus_comes_close_to_the_bound() {
    let plan = crate::common::planned("multiring", "torus:8x8");
    let bound = bounds(&plan.topology).seconds(Bytes::known(1 << 30)).get();
    let fraction = bound / flow_seconds(&plan, 1 << 30);
    assert!((0.99..=1.0 + 1e-9).contains(&fraction), "{fraction} of the bound");
}

/// One unit of data takes a second over a link of bandwidth 1.
const UNIT: u64 = 1 << 30;

fn seconds(seconds: f64) -> Time {
    Time::from_seconds(seconds).unwrap()
}

/// A one-way link of this many units a second, without delays.
fn link(source: u32, target: u32, bandwidth: f64) -> Link {
    let (source, target) = (NodeId(source), NodeId(target));
    let bandwidth = Bandwidth::known(bandwidth * UNIT as f64);
    Link { source, target, bandwidth, latency: Time::ZERO, overhead: Time::ZERO, streams: None }
}

/// Accelerators in a one-way line with links of these bandwidths, and one link back to hold them together.
fn line(bandwidths: &[f64]) -> Vec<Link> {
    let links = (0..).zip(bandwidths).map(|(rank, &bandwidth)| link(rank, rank + 1, bandwidth));
    links.chain([link(bandwidths.len() as u32, 0, 1.0)]).collect()
}

fn network(nodes: Vec<Node>, links: Vec<Link>) -> Arc<Topology> {
    Arc::new(Topology::new("by hand", nodes, links, None, Shape::General).unwrap())
}

/// A plan for a network of accelerators, without phases, for `units` units of data.
fn plan_on(links: &[Link], units: u64) -> Draft {
    let ranks = links.iter().map(|link| link.source.max(link.target).0 + 1).max().unwrap();
    Draft::new(&network(accelerators(ranks), links.to_vec()), "by hand", units)
}

/// Sets out to send each `(source, target, units)` at once, as one chunk each.
fn send(plan: &mut Draft, messages: &[(u32, u32, u64)]) {
    let mut unit = 0;
    let mut trees = Vec::new();
    for &(source, target, units) in messages {
        let down = half(plan, &[(source, target, 0)]);
        trees.push(tree(unit..unit + units, source, Half::None, down));
        unit += units;
    }
    plan.push_phase(Pace::Stream, trees);
}

/// `[start, sent, received]` of every transfer, by phase, tree, step and chunk.
fn times(plan: &Draft) -> Vec<[f64; 3]> {
    let trace = flow::simulate(&plan.clone().unchecked(), Bytes::known(plan.units * UNIT), Watch::TRANSFERS).unwrap();
    let mut transfers = trace.transfers;
    transfers.sort_by_key(|span| (span.phase, span.tree, span.step, span.chunk));
    let last = transfers.iter().map(|span| span.received).max();
    assert_eq!(Some(trace.seconds), last);
    transfers.iter().map(|span| [span.start, span.sent, span.received].map(Seconds::get)).collect()
}

fn assert_times(plan: &Draft, expected: &[[f64; 3]]) {
    let seen = times(plan);
    let near = seen.iter().flatten().zip(expected.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-9);
    assert!(seen.len() == expected.len() && near, "{seen:?}, should be {expected:?}");
}

/// When every one of some messages that set out together has left, latencies being none.
fn assert_sent(links: &[Link], messages: &[(u32, u32, u64)], expected: &[f64]) {
    let mut plan = plan_on(links, messages.iter().map(|message| message.2).sum());
    send(&mut plan, messages);
    assert_times(&plan, &expected.iter().map(|&sent| [0.0, sent, sent]).collect::<Vec<_>>());
}

#[test]
fn two_messages_over_one_link_get_half_each() {
    assert_sent(&line(&[1.0]), &[(0, 1, 1)], &[1.0]);
    assert_sent(&line(&[1.0]), &[(0, 1, 1), (0, 1, 1)], &[2.0, 2.0]);
    assert_sent(&line(&[1.0, 1.0]), &[(0, 1, 1), (0, 2, 1)], &[2.0, 2.0]);
}

#[test]
fn several_messages_on_one_lane_leave_one_by_one_as_they_shrink() {
    assert_sent(&line(&[1.0]), &[(0, 1, 3), (0, 1, 1), (0, 1, 2)], &[6.0, 3.0, 5.0]);
    // The lane's two messages count twice against the third, which takes another lane over the same link.
    assert_sent(&line(&[1.0, 9.0]), &[(0, 1, 1), (0, 1, 1), (0, 2, 2)], &[3.0, 3.0, 4.0]);
}

#[test]
fn a_message_that_is_held_up_elsewhere_leaves_the_rest_to_others() {
    // Both messages over the first link get 1/2, so the third gets 3/2 of the second link's 2.
    assert_sent(&line(&[1.0, 2.0]), &[(0, 2, 1), (0, 1, 1), (1, 2, 3)], &[2.0, 2.0, 2.0]);
    // The long route gets 1/2 on every link, the others 1/2, 3/2 and 5/2.
    assert_sent(&line(&[1.0, 2.0, 3.0]), &[(0, 3, 1), (0, 1, 1), (1, 2, 3), (2, 3, 5)], &[2.0; 4]);
    // The same with the slowest link last.
    assert_sent(&line(&[3.0, 2.0, 1.0]), &[(0, 3, 1), (0, 1, 5), (1, 2, 3), (2, 3, 1)], &[2.0; 4]);
}

#[test]
fn rates_rise_when_another_message_has_left() {
    // 1/2, 1/2, 3/2 until 2; then 1 and 1 until 3; then the last one has its link of 2 for itself.
    assert_sent(&line(&[1.0, 2.0]), &[(0, 2, 2), (0, 1, 1), (1, 2, 10)], &[3.0, 2.0, 6.0]);
    // 2/3 each until 3/2; then 1 (its own last link) and 1 until 5/2; then 1 still, though 2 would be free.
    let links = [link(0, 1, 2.0), link(1, 2, 1.0), link(2, 0, 1.0)];
    assert_sent(&links, &[(0, 1, 1), (0, 1, 2), (0, 2, 3)], &[1.5, 2.5, 3.5]);
}

#[test]
fn routes_that_share_a_link_in_their_middle_share_its_bandwidth() {
    let mut nodes = accelerators(4);
    nodes.extend(["left", "right"].map(|name| Node::switch(name, Abilities::NONE)));
    let cables = [(0, 4, 8.0), (1, 4, 8.0), (4, 5, 1.0), (5, 2, 8.0), (5, 3, 8.0)];
    let links = cables.iter().flat_map(|&(a, b, bandwidth)| [link(a, b, bandwidth), link(b, a, bandwidth)]);
    let mut plan = Draft::new(&network(nodes, links.collect()), "by hand", 10);
    // Two from left to right; one the other way and one that stays on its side meet nobody.
    send(&mut plan, &[(0, 2, 2), (1, 3, 1), (3, 1, 1), (2, 3, 6)]);
    assert_times(&plan, &[[0.0, 3.0, 3.0], [0.0, 2.0, 2.0], [0.0, 1.0, 1.0], [0.0, 0.8, 0.8]]);
}

/// A line of three with a latency of 1 a link: a tree from end to end, steps 1 and 2, and others from the middle.
fn steps_on_a_line(others: &[(u64, u16)]) -> Draft {
    let links: Vec<_> = line(&[1.0, 1.0]).into_iter().map(|link| Link { latency: seconds(1.0), ..link }).collect();
    let mut plan = plan_on(&links, 4 + others.iter().map(|other| other.0).sum::<u64>());
    let mut trees = vec![tree(0..4, 0, Half::None, half(&mut plan, &[(0, 1, 1), (1, 2, 2)]))];
    let mut unit = 4;
    for &(units, step) in others {
        let down = half(&mut plan, &[(1, 2, step)]);
        trees.push(tree(unit..unit + units, 1, Half::None, down));
        unit += units;
    }
    plan.push_phase(Pace::Step(Sharing::Shared), trees);
    plan
}

#[test]
fn a_port_sends_its_steps_in_order() {
    // Step 3 could leave at once, but waits until step 2, which waits for step 1's receipt, has left.
    let end_to_end = [[0.0, 4.0, 5.0], [5.0, 9.0, 10.0]];
    assert_times(&steps_on_a_line(&[(1, 3)]), &[end_to_end[0], end_to_end[1], [9.0, 10.0, 11.0]]);
    // What belongs to step 1 does leave at once: nobody waits for a step to end elsewhere.
    assert_times(&steps_on_a_line(&[(1, 1)]), &[end_to_end[0], end_to_end[1], [0.0, 1.0, 2.0]]);
}

#[test]
fn transfers_of_one_lane_and_step_travel_as_one_message() {
    // The second tree's part waits for the first's, and there is one span for both: 5 units from 5 on.
    assert_times(&steps_on_a_line(&[(1, 2)]), &[[0.0, 4.0, 5.0], [5.0, 10.0, 11.0]]);
}

#[test]
fn a_phase_begins_when_the_one_before_has_ended() {
    let links: Vec<_> = line(&[1.0, 1.0]).into_iter().map(|link| Link { latency: seconds(0.5), ..link }).collect();
    let mut plan = plan_on(&links, 3);
    send(&mut plan, &[(0, 1, 2)]);
    send(&mut plan, &[(1, 2, 1)]);
    assert_times(&plan, &[[0.0, 2.0, 2.5], [2.5, 3.5, 4.0]]);
}

/// Two chunks of 4 units from end to end of a line.
fn two_chunks(links: &[Link]) -> Draft {
    let mut plan = plan_on(links, 8);
    send(&mut plan, &[(0, 2, 8)]);
    plan.trees[0].chunk = Chunk::Count(2);
    plan
}

#[test]
fn overheads_occupy_and_latencies_do_not() {
    let mut links = line(&[4.0, 1.0]);
    assert_times(&two_chunks(&links), &[[0.0, 4.0, 4.0], [4.0, 8.0, 8.0]]);
    links[1].latency = seconds(0.5);
    assert_times(&two_chunks(&links), &[[0.0, 4.0, 4.5], [4.0, 8.0, 8.5]]);
    links[1].overhead = seconds(1.0);
    assert_times(&two_chunks(&links), &[[0.0, 5.0, 5.5], [5.0, 10.0, 10.5]]);
}

/// A message alone takes what alpha-beta says, all delays and its slowest link's time for the bytes; the next one
/// follows as soon as the link that takes longest for overhead and bytes has done with it.
#[test]
fn a_message_alone_takes_all_overheads_of_its_route() {
    let mut links = line(&[4.0, 1.0]);
    (links[0].overhead, links[1].overhead) = (seconds(3.0), seconds(1.0));
    let plan = two_chunks(&links);
    assert_times(&plan, &[[0.0, 5.0, 8.0], [5.0, 10.0, 13.0]]);
    (links[0].overhead, links[1].overhead) = (seconds(5.0), seconds(0.0));
    assert_times(&two_chunks(&links), &[[0.0, 6.0, 9.0], [6.0, 12.0, 15.0]]);
}

/// Everything is through when the busiest link, which has 4 units to carry, is: fair shares would send one unit in 2.
#[test]
fn paced_trees_go_no_faster_than_their_part_of_the_busiest_link() {
    let mut links = line(&[1.0, 9.0]);
    let paced = |links: &[Link]| {
        let mut plan = plan_on(links, 4);
        send(&mut plan, &[(0, 2, 1), (0, 1, 3)]);
        plan.phases[0].pace = Pace::Paced;
        plan
    };
    assert_times(&paced(&links), &[[0.0, 4.0, 4.0], [0.0, 4.0, 4.0]]);
    // An overhead occupies the tree's part of the link, not that of others.
    links[0].overhead = seconds(1.0);
    assert_times(&paced(&links), &[[0.0, 5.0, 5.0], [0.0, 5.0, 5.0]]);
}

#[test]
fn a_paced_tree_has_one_rate_on_all_its_links() {
    let mut plan = plan_on(&line(&[1.0, 9.0]), 4);
    let down = half(&mut plan, &[(0, 1, 0), (1, 2, 0)]);
    let chain = treefold::plan::Tree { chunk: Chunk::Count(2), ..tree(0..4, 0, Half::None, down) };
    plan.push_phase(Pace::Paced, vec![chain]);
    // Chunk by chunk, over the first link and then over the second.
    assert_times(&plan, &[[0.0, 2.0, 2.0], [2.0, 4.0, 4.0], [2.0, 4.0, 4.0], [4.0, 6.0, 6.0]]);
}

#[test]
fn nothing_to_send_takes_no_time() {
    for (algorithm, text) in [("ring", "ring:8"), ("dbtree", "torus:3x3"), ("ring2d", "torus:4x4")] {
        let plan = crate::common::planned(algorithm, text);
        let trace = flow::simulate(&plan, Bytes::known(0), Watch::TRANSFERS).unwrap();
        assert_eq!((trace.seconds, trace.transfers.len()), (Seconds::ZERO, 0));
        assert!(trace.occupied.iter().chain(&trace.carried).all(|&busy| busy == Seconds::ZERO));
    }
    for planner in planners::PLANNERS {
        let alone = Arc::new(spec("full:8").with_ranks(&[3]).unwrap());
        if let Ok(plan) = planners::plan(planner.name, &alone, &Options::default()) {
            assert_eq!(flow_seconds(&plan, 1 << 20), 0.0, "{}", planner.name);
        }
    }
}

#[test]
fn a_simulation_ends_when_it_is_asked_to() {
    let plan = crate::common::planned("dbtree", "random:n=20,links=60,seed=1");
    assert!(flow::simulate(&plan, Bytes::known(1 << 30), Watch::asking(&mut |_| false)).is_err());
    let mut questions = 0;
    let mut twice = |_| {
        questions += 1;
        questions < 3
    };
    assert!(flow::simulate(&plan, Bytes::known(1 << 30), Watch { transfers: true, go_on: Some(&mut twice) }).is_err());
    assert_eq!(questions, 3);
}
