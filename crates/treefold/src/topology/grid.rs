//! Rings, lines, tori, meshes, hypercubes, full meshes and DGX-1's cube, and the dimension-ordered routes of grids.
//!
//! Nodes are numbered row-major with the last dimension (X) fastest. Each node lists its links in the order in which
//! the MultiTree paper tries them: first dimension first (Y before X), lower neighbour first: N, S, W, E.

use super::spec::{Defaults, Spec};
use super::{Link, LinkId, Node, NodeId, Shape, Topology};
use crate::bail;
use crate::error::Result;

/// Builds `torus:8x8`: every dimension is closed to a ring; a dimension of length 2 has two parallel cables.
pub(super) fn torus(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    grid(spec, defaults, spec.sizes()?, true)
}

/// Builds `mesh:8x8`.
pub(super) fn mesh(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    grid(spec, defaults, spec.sizes()?, false)
}

/// Builds `ring:8`.
pub(super) fn ring(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    grid(spec, defaults, vec![spec.size()?], true)
}

/// Builds `line:8`.
pub(super) fn line(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    grid(spec, defaults, vec![spec.size()?], false)
}

/// Builds `hypercube:6`: a mesh of length two along each of six dimensions.
pub(super) fn hypercube(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let dimensions = spec.size()?;
    if dimensions > 16 {
        bail!("{}: a hypercube has at most 16 dimensions here, got {dimensions}", spec.text);
    }
    grid(spec, defaults, vec![2; dimensions as usize], false)
}

/// Builds `full:8`: a link in each direction between every pair of nodes.
pub(super) fn full(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let count = spec.size()?;
    spec.check_size(u64::from(count), u64::from(count) * u64::from(count))?;
    let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b);
    let links = pairs.map(|(a, b)| defaults.link(NodeId(a), NodeId(b))).collect();
    Topology::new(spec.text, accelerators(count), links, None, Shape::General)
}

/// Builds `dgx1`: NVIDIA's DGX-1 with 8 V100, whose NVLinks are those of SCCL (Cai et al., PPoPP 2021): two parallel
/// ones between some pairs, and six at each GPU.
pub(super) fn dgx1(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let of_half = [(0, 1, 2), (0, 2, 1), (0, 3, 1), (1, 2, 1), (1, 3, 2), (2, 3, 2)];
    let between = [(0, 4, 2), (1, 5, 1), (2, 6, 2), (3, 7, 1)];
    let halves = [0, 4].into_iter().flat_map(|first| of_half.map(|(a, b, count)| (first + a, first + b, count)));
    let both_ways = |(a, b, count)| (0..count).flat_map(move |_| defaults.both_ways(NodeId(a), NodeId(b)));
    let links = halves.chain(between).flat_map(both_ways).collect();
    Topology::new(spec.text, accelerators(8), links, None, Shape::General)
}

/// Returns accelerators with the names `GPU0`, `GPU1` and so on.
pub(super) fn accelerators(count: u32) -> Vec<Node> {
    (0..count).map(|i| Node::accelerator(format!("GPU{i}"))).collect()
}

fn grid(spec: &Spec, defaults: &Defaults, dims: Vec<u32>, wrap: bool) -> Result<Topology> {
    let cells = dims.iter().try_fold(1u64, |cells, &side| cells.checked_mul(side.into()));
    let count = cells.unwrap_or(u64::MAX);
    spec.check_size(count, count.saturating_mul(2 * dims.len() as u64))?;
    let mut links: Vec<Link> = Vec::new();
    for cell in 0..count as u32 {
        for dimension in 0..dims.len() {
            for forward in [false, true] {
                if let Some(next) = neighbour(&dims, wrap, cell, dimension, forward) {
                    links.push(defaults.link(NodeId(cell), NodeId(next)));
                }
            }
        }
    }
    Topology::new(spec.text, accelerators(count as u32), links, None, Shape::Grid { dims, wrap })
}

/// Returns the difference of the numbers of neighbours along `dimension`.
pub(super) fn stride(dims: &[u32], dimension: usize) -> u32 {
    dims[dimension + 1..].iter().product()
}

/// Returns where a cell is along `dimension`.
pub(super) fn coordinate(dims: &[u32], cell: u32, dimension: usize) -> u32 {
    cell / stride(dims, dimension) % dims[dimension]
}

/// Returns the next cell along `dimension`, if there is one.
pub(super) fn neighbour(dims: &[u32], wrap: bool, cell: u32, dimension: usize, forward: bool) -> Option<u32> {
    let (length, at) = (dims[dimension], coordinate(dims, cell, dimension));
    let edge = if forward { at + 1 == length } else { at == 0 };
    if length == 1 || (edge && !wrap) {
        return None;
    }
    let next = if forward { (at + 1) % length } else { (at + length - 1) % length };
    Some(cell - at * stride(dims, dimension) + next * stride(dims, dimension))
}

/// Returns the hops along one dimension and whether they go forward: in the shorter direction, and forward on a tie.
fn steps_along(length: u32, wrap: bool, from: u32, to: u32) -> (u32, bool) {
    if !wrap {
        return (from.abs_diff(to), to > from);
    }
    let forward = (to + length - from) % length;
    if forward * 2 <= length { (forward, true) } else { (length - forward, false) }
}

/// Returns whether both directions along one dimension are equally short.
fn ties_along(length: u32, wrap: bool, from: u32, to: u32) -> bool {
    wrap && from != to && from.abs_diff(to) * 2 == length
}

/// Returns the link from `node` to the neighbouring cell: of two parallel ones, the one listed for that direction.
fn link_towards(topology: &Topology, node: NodeId, next: NodeId, forward: bool) -> Option<LinkId> {
    let mut links = topology.outgoing(node).iter().filter(|&&link| topology.link(link).target == next);
    let first = links.next();
    if forward { links.next().or(first).copied() } else { first.copied() }
}

/// The most dimensions in which routers choose among directions that tie; in more, packets go forward.
const MAX_CHOICES: usize = 3;

/// Counts the dimension-ordered routes among which routers choose: each dimension along which both directions tie
/// doubles them.
pub(super) fn ways(topology: &Topology, dims: &[u32], wrap: bool, source: NodeId, target: NodeId) -> u32 {
    let (from, to) = (topology.place(source), topology.place(target));
    let ties = |&dimension: &usize| {
        ties_along(dims[dimension], wrap, coordinate(dims, from, dimension), coordinate(dims, to, dimension))
    };
    1 << (0..dims.len()).filter(ties).count().min(MAX_CHOICES)
}

/// Appends the links of dimension-ordered route number `way`: X first, then Y, and so on. In the first dimension that
/// ties the lowest bit of `way` says whether to go backward, in the second the next bit.
pub(super) fn route(topology: &Topology, [source, target]: [NodeId; 2], way: u32, route: &mut Vec<LinkId>) {
    let Shape::Grid { dims, wrap } = topology.shape() else { return };
    let (goal, mut way) = (topology.place(target), way);
    let (mut node, mut cell) = (source, topology.place(source));
    for dimension in (0..dims.len()).rev() {
        let (from, to) = (coordinate(dims, cell, dimension), coordinate(dims, goal, dimension));
        let (hops, mut forward) = steps_along(dims[dimension], *wrap, from, to);
        if ties_along(dims[dimension], *wrap, from, to) {
            forward = way % 2 == 0;
            way /= 2;
        }
        for _ in 0..hops {
            cell = neighbour(dims, *wrap, cell, dimension, forward).expect("a route stays on the grid");
            let next = topology.node_at(cell);
            route.push(link_towards(topology, node, next, forward).expect("check_links has found this link"));
            node = next;
        }
    }
}

/// Returns the length of [`route`].
pub(super) fn hops(topology: &Topology, dims: &[u32], wrap: bool, source: NodeId, target: NodeId) -> u32 {
    let (from, to) = (topology.place(source), topology.place(target));
    let along = |dimension| {
        steps_along(dims[dimension], wrap, coordinate(dims, from, dimension), coordinate(dims, to, dimension)).0
    };
    (0..dims.len()).map(along).sum()
}

/// Refuses a network that has the shape of a grid but lacks a link of it.
pub(super) fn check_links(topology: &Topology, dims: &[u32], wrap: bool) -> Result<()> {
    for node in topology.node_ids() {
        for dimension in 0..dims.len() {
            for forward in [false, true] {
                let Some(cell) = neighbour(dims, wrap, topology.place(node), dimension, forward) else { continue };
                let next = topology.node_at(cell);
                if link_towards(topology, node, next, forward).is_none() {
                    let (from, to) = (&topology.node(node).name, &topology.node(next).name);
                    bail!("{}: its shape needs a link {from} -> {to}; add it or drop 'shape'", topology.name());
                }
            }
        }
    }
    Ok(())
}
