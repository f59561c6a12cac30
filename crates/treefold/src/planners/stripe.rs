//! Striping over planes: on networks of several planes every algorithm uses all of them.
//!
//! A plane is a connected set of switches to which every rank is attached; a DGX-2 has six. A route takes one plane, so
//! a plan whose lanes the topology routes would leave the others idle. Here each of its trees becomes one tree a plane
//! with an equal part of its span, routed within that plane. Plans that list their links (MultiTree) use all planes by
//! themselves. The in-network paper's software baselines do the same.

use std::sync::Arc;

use crate::plan::check::check_contention;
use crate::plan::{Direction, Draft, Half, LaneId, LaneRef, Pace, Phase, Routing, Sharing, Step, Tree};
use crate::search::BreadthFirst;
use crate::topology::{Link, LinkId, NodeId, Shape, Topology};

/// A plane as a network of its own, and the link of the whole network that each of its links is.
struct Plane {
    topology: Topology,
    link_of: Vec<LinkId>,
}

/// Returns `plan` with every tree split over all planes, or unchanged if there is only one plane or nothing is routed.
pub(super) fn stripe(plan: Draft) -> Draft {
    let routed = plan.lanes.ids().any(|lane| plan.lanes.routing(lane) == Routing::Routed);
    let planes = if routed { planes(&plan.topology) } else { Vec::new() };
    if planes.len() < 2 {
        return plan;
    }
    let mut striped = Draft::new(&plan.topology, plan.algorithm.clone(), plan.units * planes.len() as u64);
    for phase in &plan.phases {
        let mut trees = Vec::new();
        for tree in plan.trees_of(phase) {
            for (number, plane) in (0..).zip(&planes) {
                trees.push(in_plane(&plan, &mut striped, phase, tree, plane, (number, planes.len() as u64)));
            }
        }
        striped.push_phase(phase.pace, trees);
        keep_promise(&mut striped);
    }
    striped
}

/// Lets the last phase promise nothing if it does not keep its promise: routes within a plane may share links that
/// those of the whole network do not share (a cable between two ranks is in no plane).
pub(super) fn keep_promise(striped: &mut Draft) {
    let last = striped.phases.len() - 1;
    if check_contention(striped, &striped.phases[last]).is_err() {
        striped.phases[last].pace = Pace::Step(Sharing::Shared);
    }
}

/// Returns the part of `tree` that plane `number` of `count` carries. Mirrored halves get edges of their own: their
/// lanes are routed anew, like those of any mirrored routed lane.
fn in_plane(
    plan: &Draft,
    striped: &mut Draft,
    phase: &Phase,
    tree: &Tree,
    plane: &Plane,
    (number, count): (u64, u64),
) -> Tree {
    let start = tree.span.start * count + number * tree.units();
    let [up, down] = Direction::BOTH.map(|direction| {
        let half = if direction == Direction::Up { &tree.up } else { &tree.down };
        if *half == Half::None {
            return Half::None;
        }
        let edges: Vec<(LaneId, Option<Step>)> = plan
            .half(phase, tree, direction)
            .map(|edge| (lane_in_plane(plan, striped, edge.lane, plane), edge.step))
            .collect();
        striped.own_half(edges)
    });
    Tree { span: start..start + tree.units(), root: tree.root, up, down, chunk: tree.chunk }
}

fn lane_in_plane(plan: &Draft, striped: &mut Draft, lane: LaneRef, plane: &Plane) -> LaneId {
    let topology = Arc::clone(&striped.topology);
    if plan.lanes.routing(lane.lane()) != Routing::Routed {
        let lane = striped.lanes.adopt(&topology, &plan.lanes, lane);
        return lane.expect("a plan only mirrors links that have a reverse");
    }
    let (source, target) = plan.lanes.ends_of(lane);
    let mut route = Vec::new();
    plane.topology.route(source, target, &mut route);
    let links: Vec<LinkId> = route.iter().map(|&link| plane.link_of[link]).collect();
    striped.lanes.via(&topology, &links)
}

/// Returns the planes to which all ranks are attached. In a plane, ranks keep their numbers.
fn planes(topology: &Topology) -> Vec<Plane> {
    let component = components(topology);
    let count = component.iter().flatten().max().map_or(0, |last| last + 1);
    (0..count).filter_map(|number| plane(topology, &component, number)).collect()
}

/// Returns the component of switches to which each switch belongs; accelerators that are no ranks do not join planes.
fn components(topology: &Topology) -> Vec<Option<usize>> {
    let mut component = vec![None; topology.nodes().len()];
    let (mut count, mut search) = (0, BreadthFirst::new(topology.nodes().len()));
    let is_switch = |node: NodeId| topology.node(node).is_switch();
    for start in topology.node_ids().skip(topology.ranks() as usize).filter(|&node| is_switch(node)) {
        if search.reaches(start) {
            continue;
        }
        let known = search.order().len();
        search.flood(start, |node| topology.targets(node).chain(topology.sources(node)).filter(|&end| is_switch(end)));
        search.order()[known..].iter().for_each(|&node| component[node] = Some(count));
        count += 1;
    }
    component
}

/// Returns component `number` with all ranks and the links between them, if every rank reaches every other within it.
fn plane(topology: &Topology, component: &[Option<usize>], number: usize) -> Option<Plane> {
    let belongs = |node: NodeId| topology.is_rank(node) || component[node] == Some(number);
    let is_switch = |node: NodeId| !topology.is_rank(node);
    let mut new_id = vec![None; topology.nodes().len()];
    let mut nodes = Vec::new();
    for node in topology.node_ids().filter(|&node| belongs(node)) {
        new_id[node] = Some(NodeId::new(nodes.len()));
        nodes.push(topology.node(node).clone());
    }
    let (mut links, mut link_of) = (Vec::new(), Vec::new());
    for (id, link) in topology.link_ids().zip(topology.links()) {
        let (Some(source), Some(target)) = (new_id[link.source], new_id[link.target]) else { continue };
        if is_switch(link.source) || is_switch(link.target) {
            links.push(Link { source, target, ..link.clone() });
            link_of.push(id);
        }
    }
    let ranks = topology.rank_ids().collect();
    // The shape in a file describes the whole network; only its rule for ties holds for a part, too.
    let shape = match topology.shape() {
        Shape::Dgx2 => Shape::Dgx2,
        _ => Shape::General,
    };
    let topology = Topology::new(topology.name(), nodes, links, Some(ranks), shape).ok()?;
    Some(Plane { topology, link_of })
}
