//! Tightens the bounds of all-reduces with a linear program, where cuts alone do not make them exact.
//!
//! Root v broadcasts, and receives sums, at the rate x(v). Link e carries b(e) of broadcasts and r(e) of reductions,
//! within its capacity. The program maximises the sum of x. For every set S of nodes that lacks a rank it needs
//! `b(out of S) >= x(S)` and `r(into S) >= x(S)`; without help of switches this is also sufficient (Edmonds 1973).
//! Nodes that are not ranks send as much as they receive, unless they multicast or reduce. If both directions of the
//! network are alike, a solution can be averaged with its mirror image, so r is b in the opposite direction.
//!
//! The roots are the ranks and the switches that reduce. No others are needed: if the root of a tree is a switch with
//! one operand, the root can move to the source of that operand, until it is a rank or several operands meet. A root
//! that cannot multicast sends what it receives of broadcasts and, once, its own data. In a mirrored solution the ranks
//! suffice: reversing the links between the root and a rank makes the rank the root, and loads no link more.
//!
//! Only violated sets of the 2^N enter the program (Kelley 1960); minimum cuts find them (`cut.rs`). Every solution
//! gives an upper bound by its dual prices, even if these are not optimal (Neumaier and Shcherbina 2004). Every search
//! for cuts gives a lower bound: the rates, scaled down until no cut is violated. Interior-point solutions lie in the
//! middle of all optimal ones, so one to three rounds suffice, rarely a dozen.
//!
//! Cost: 0.05 s for `fattree128` (128 ranks, 3,072 links) and for 64 ranks with 4,032 unequal links.

use std::collections::{BTreeMap, BTreeSet};

use super::cut::{Links, find_cuts};
use super::limit::Limit;
use crate::linear::{Program, Row};
use crate::topology::{LinkId, NodeId, Topology};

/// The most ranks times links for which the program is solved.
const MAX_WORK: usize = 1 << 21;
/// The relative difference between upper and lower bound that counts as none.
pub(super) const GAP: f64 = 1e-7;
/// The part of the mean rate that is subtracted from all rates before the search for cuts, to hide rounding errors.
const NOISE: f64 = 2e-8;
/// The most programs that are solved for a network, in case they do not come to an end.
const MOST_ROUNDS: usize = 30;

/// Bounds on the rate of all-reduces, in bytes a second: none has a rate above the upper one, and one reaches the lower
/// one.
#[derive(Debug, Clone)]
pub(super) struct Proven {
    pub upper: f64,
    pub lower: f64,
    /// The links whose prices prove the upper one.
    pub limit: Limit,
    /// The most by which the upper one rises for each byte a second that a link gains.
    pub prices: Vec<f64>,
}

impl Proven {
    /// Returns whether the upper bound is exact.
    pub fn is_exact(&self) -> bool {
        self.upper - self.lower <= GAP * self.upper
    }
}

/// Solves the program of a network of at least two ranks, of which `bound` bytes a second are a valid bound; `None` if
/// the network is too large. If `with_switches`, switches multicast and reduce.
pub(super) fn solve(topology: &Topology, bound: f64, with_switches: bool) -> Option<Proven> {
    if topology.ranks() as usize * topology.links().len() > MAX_WORK {
        return None;
    }
    let network = Scaled::new(topology, bound, with_switches);
    let mut cuts = Cuts::new(&network);
    let (mut upper, mut lower, mut prices) = (1.0f64, 0.0f64, vec![0.0; topology.num_capacities()]);
    for _ in 0..MOST_ROUNDS {
        let solution = cuts.program.solve();
        let proven = cuts.dual_bound(&solution.prices);
        if proven < upper {
            (upper, prices) = (proven, cuts.prices(&network, &solution.prices));
        }
        let (total, is_new) = cuts.separate(&solution.values);
        lower = lower.max(total);
        if upper - lower <= GAP * upper || !is_new {
            break;
        }
    }
    Some(Proven { upper: upper * bound, lower: lower * bound, limit: Limit::of_prices(topology, &prices), prices })
}

/// A network with parallel links joined that share the same, and with capacities as fractions of the bound known before.
struct Scaled {
    ranks: usize,
    nodes: usize,
    /// The joined link of each link.
    joined: Vec<usize>,
    shared: Vec<Shared>,
    ends: Vec<(NodeId, NodeId)>,
    capacity: Vec<f64>,
    /// The most that each link needs for broadcasts, and for reductions.
    most: [Vec<f64>; 2],
    /// The number of each link's opposite.
    reverse: Vec<Option<usize>>,
    /// Whether each node sends as much of broadcasts as it receives, plus its own data if it is a root; and whether it
    /// receives as much of reductions as it sends, which roots do not.
    passes: [Vec<bool>; 2],
}

/// A capacity that links share.
struct Shared {
    /// The joined links, each once.
    links: Vec<usize>,
    capacity: f64,
    /// The number of the shared capacity over the opposite links.
    opposite: Option<usize>,
}

/// Links between the same nodes that share the same.
type Joined = (NodeId, NodeId, Vec<LinkId>);

/// Returns what links are joined with `link`, or with its opposite one.
fn joined_with(topology: &Topology, link: LinkId) -> Joined {
    (topology.link(link).source, topology.link(link).target, topology.shared_by(link).to_vec())
}

fn opposite(topology: &Topology, (source, target, shared): &Joined) -> Option<Joined> {
    let mut back = shared.iter().map(|&shared| topology.opposite(shared)).collect::<Option<Vec<LinkId>>>()?;
    back.sort_unstable();
    Some((*target, *source, back))
}

impl Shared {
    fn all(topology: &Topology, bound: f64, joined: &[usize]) -> Vec<Self> {
        let links = topology.links().len();
        let shared = topology.capacity_ids().skip(links).zip(topology.shared());
        let scaled = |(id, shared): (LinkId, &crate::topology::Shared)| {
            let members: BTreeSet<usize> = shared.links.iter().map(|&link| joined[link.index()]).collect();
            let opposite = topology.opposite(id).map(|back| back.index() - links);
            let capacity = shared.bandwidth.bytes_per_second() / bound;
            Self { links: members.into_iter().collect(), capacity, opposite }
        };
        shared.map(scaled).collect()
    }
}

impl Scaled {
    fn new(topology: &Topology, bound: f64, with_switches: bool) -> Self {
        let ranks = topology.ranks() as usize;
        let mut joined: BTreeMap<Joined, f64> = BTreeMap::new();
        for (id, link) in topology.link_ids().zip(topology.links()) {
            *joined.entry(joined_with(topology, id)).or_default() += link.bandwidth.bytes_per_second() / bound;
        }
        let place: BTreeMap<&Joined, usize> = joined.keys().enumerate().map(|(place, key)| (key, place)).collect();
        let reverse = joined.keys().map(|key| place.get(&opposite(topology, key)?).copied()).collect();
        let joined_link: Vec<usize> = topology.link_ids().map(|id| place[&joined_with(topology, id)]).collect();
        let shared = Shared::all(topology, bound, &joined_link);
        let able = topology.nodes().iter().map(|node| node.abilities());
        let able = able.map(|able| [able.multicasts, able.reduces].map(|able| able && with_switches));
        let relays = able.enumerate().map(|(node, able)| able.map(|able| node >= ranks && !able));
        let (of_broadcasts, of_reductions): (Vec<bool>, Vec<bool>) = relays.map(|[a, b]| (a, b)).unzip();
        // A node that can copy needs everything once; others need a copy for every other rank.
        let needs = |copies: bool| if copies { ranks as f64 - 1.0 } else { 1.0 };
        let capped = |capacity: f64, needs: f64| capacity.min(needs);
        let (ends, capacity): (Vec<_>, Vec<_>) =
            joined.into_iter().map(|((source, target, _), capacity)| ((source, target), capacity)).unzip();
        let broadcasts = ends.iter().map(|&(_, target)| needs(of_broadcasts[target]));
        let reductions = ends.iter().map(|&(source, _)| needs(of_reductions[source]));
        let most: Vec<(f64, f64)> = broadcasts.zip(reductions).collect();
        let capacity: Vec<f64> =
            capacity.iter().zip(&most).map(|(&each, most)| capped(each, most.0 + most.1)).collect();
        let of = |part: fn(&(f64, f64)) -> f64| {
            capacity.iter().zip(&most).map(|(&each, most)| capped(each, part(most))).collect()
        };
        let most = [of(|most| most.0), of(|most| most.1)];
        let nodes = topology.nodes().len();
        let passes = [of_broadcasts, of_reductions];
        Self { ranks, nodes, joined: joined_link, shared, ends, most, reverse, passes, capacity }
    }

    /// Returns whether both directions are alike, so that reductions are broadcasts in the opposite direction.
    fn is_mirrored(&self) -> bool {
        let alike =
            |(link, back): (usize, &Option<usize>)| back.is_some_and(|back| self.capacity[link] == self.capacity[back]);
        self.passes[0] == self.passes[1]
            && self.reverse.iter().enumerate().all(alike)
            && self.shared.iter().all(|shared| shared.opposite.is_some())
    }

    /// Lists the links whose capacity has a row in the program; mirrored links share one.
    fn links_with_rows(&self) -> Vec<usize> {
        let is_mirrored = self.is_mirrored();
        let has_row = |&link: &usize| !is_mirrored || self.reverse[link].is_some_and(|back| link < back);
        (0..self.ends.len()).filter(has_row).collect()
    }

    /// Lists what links share and has a row in the program, by number; opposite ones share one row.
    fn shared_with_rows(&self) -> Vec<usize> {
        let is_mirrored = self.is_mirrored();
        let has_row = |&shared: &usize| !is_mirrored || self.shared[shared].opposite.is_some_and(|back| shared <= back);
        (0..self.shared.len()).filter(has_row).collect()
    }

    /// Returns whether each node may be a root.
    fn roots(&self) -> Vec<bool> {
        let is_mirrored = self.is_mirrored();
        (0..self.nodes).map(|node| if is_mirrored { node < self.ranks } else { !self.passes[1][node] }).collect()
    }
}

/// The broadcasts, or the reductions as broadcasts on the reversed network.
struct Half {
    ends: Vec<(NodeId, NodeId)>,
    /// The program's column of each link.
    columns: Vec<usize>,
    /// Whether each node sends as much as it receives.
    passes: Vec<bool>,
    /// The sets of nodes whose cuts are in the program.
    known: BTreeSet<Vec<bool>>,
}

/// The program with the cuts so far; it minimises the negative sum of all rates.
///
/// Its columns are the rate of each node, which is 0 except for roots; the sum of the rates; b of each link; and r of
/// each link, unless the network is mirrored.
struct Cuts {
    program: Program,
    ranks: usize,
    roots: Vec<bool>,
    halves: Vec<Half>,
}

impl Cuts {
    fn new(network: &Scaled) -> Self {
        let (nodes, links, is_mirrored) = (network.nodes, network.ends.len(), network.is_mirrored());
        let roots = network.roots();
        let broadcasts: Vec<usize> = (nodes + 1..nodes + 1 + links).collect();
        let back = |link: usize| network.reverse[link].expect("mirrored networks have every link's reverse");
        let reductions: Vec<usize> = if is_mirrored {
            (0..links).map(|link| broadcasts[back(link)]).collect()
        } else {
            broadcasts.iter().map(|column| column + links).collect()
        };
        let mut most: Vec<f64> = roots.iter().map(|&may_root| f64::from(u8::from(may_root))).collect();
        most.push(1.0);
        network.most.iter().take(if is_mirrored { 1 } else { 2 }).for_each(|part| most.extend(part));
        let mut cost = vec![0.0; most.len()];
        cost[nodes] = -1.0;
        let mut rows = vec![Row { lower: 0.0, upper: 0.0, entries: vec![(nodes, 1.0)] }];
        rows[0].entries.extend((0..nodes).filter(|&node| roots[node]).map(|root| (root, -1.0)));
        rows.extend(network.links_with_rows().into_iter().map(|link| {
            let entries = vec![(broadcasts[link], 1.0), (reductions[link], 1.0)];
            Row { lower: f64::NEG_INFINITY, upper: network.capacity[link], entries }
        }));
        rows.extend(network.shared_with_rows().into_iter().map(|shared| {
            let Shared { links, capacity, .. } = &network.shared[shared];
            let both = links.iter().flat_map(|&link| [broadcasts[link], reductions[link]]);
            let mut entries: BTreeMap<usize, f64> = BTreeMap::new();
            both.for_each(|column| *entries.entry(column).or_default() += 1.0);
            Row { lower: f64::NEG_INFINITY, upper: *capacity, entries: entries.into_iter().collect() }
        }));
        let half = |ends: Vec<(NodeId, NodeId)>, columns: Vec<usize>, passes: &Vec<bool>| Half {
            ends,
            columns,
            passes: passes.clone(),
            known: BTreeSet::new(),
        };
        let mut halves = vec![half(network.ends.clone(), broadcasts, &network.passes[0])];
        if !is_mirrored {
            let reversed = network.ends.iter().map(|&(source, target)| (target, source)).collect();
            halves.push(half(reversed, reductions, &network.passes[1]));
        }
        let program = Program { cost, most, rows };
        let mut cuts = Self { program, ranks: network.ranks, roots, halves };
        cuts.add_first_rows();
        cuts
    }

    /// Adds what nodes pass on, and the cuts around single nodes.
    fn add_first_rows(&mut self) {
        let nodes = self.roots.len();
        let single = |node: usize, is_inside: bool| (0..nodes).map(move |other| (other == node) == is_inside).collect();
        for number in 0..self.halves.len() {
            let half = &self.halves[number];
            for node in (0..nodes).filter(|&node| half.passes[node]) {
                let mut entries: Vec<(usize, f64)> = Vec::new();
                entries.extend(self.roots[node].then_some((node, 1.0)));
                for (&(source, target), &column) in half.ends.iter().zip(&half.columns) {
                    entries.extend((target.index() == node).then_some((column, 1.0)));
                    entries.extend((source.index() == node).then_some((column, -1.0)));
                }
                self.program.rows.push(Row { lower: 0.0, upper: 0.0, entries });
            }
            let around_roots = (0..nodes).filter(|&node| self.roots[node]).map(|root| single(root, true));
            let around_others = (0..self.ranks).map(|rank| single(rank, false));
            let sets: Vec<Vec<bool>> = around_roots.chain(around_others).collect();
            self.add_cuts(number, sets);
        }
    }

    /// Adds the rows `columns out of S - x(S) >= 0` of a half for each new set S, which is given as flags; returns
    /// whether there was one.
    fn add_cuts(&mut self, half: usize, sets: Vec<Vec<bool>>) -> bool {
        let before = self.program.rows.len();
        for inside in sets {
            let Half { ends, columns, known, .. } = &mut self.halves[half];
            let leaves = |&((source, target), _): &(&(NodeId, NodeId), &usize)| inside[*source] && !inside[*target];
            let mut entries: Vec<(usize, f64)> =
                ends.iter().zip(columns.iter()).filter(leaves).map(|(_, &column)| (column, 1.0)).collect();
            let is_root = |&node: &usize| self.roots[node];
            let (within, without): (Vec<usize>, Vec<usize>) =
                (0..inside.len()).filter(is_root).partition(|&node| inside[node]);
            if within.len() <= without.len() {
                entries.extend(within.into_iter().map(|root| (root, -1.0)));
            } else {
                // The sum of all rates minus a few makes a shorter row.
                entries.push((inside.len(), -1.0));
                entries.extend(without.into_iter().map(|root| (root, 1.0)));
            }
            if known.insert(inside) {
                self.program.rows.push(Row { lower: 0.0, upper: f64::INFINITY, entries });
            }
        }
        self.program.rows.len() > before
    }

    /// Returns the upper bound on the sum of rates that prices of rows prove, optimal or not: weak duality over the box
    /// of columns.
    fn dual_bound(&self, prices: &[f64]) -> f64 {
        let (reduced, sides) = self.reduced(prices);
        -(sides + reduced.iter().zip(&self.program.most).map(|(reduced, most)| (reduced * most).min(0.0)).sum::<f64>())
    }

    /// Returns the cost of each column less what its rows pay at these prices, and what the rows' sides are worth.
    fn reduced(&self, prices: &[f64]) -> (Vec<f64>, f64) {
        let Program { cost, rows, .. } = &self.program;
        let (mut reduced, mut sides) = (cost.clone(), 0.0);
        for (Row { lower, upper, entries }, &price) in rows.iter().zip(prices) {
            let price = if lower.is_infinite() { price.min(0.0) } else { price };
            let price = if upper.is_infinite() { price.max(0.0) } else { price };
            sides += price * if lower.is_infinite() { upper } else { lower };
            entries.iter().for_each(|&(column, factor)| reduced[column] -= price * factor);
        }
        (reduced, sides)
    }

    /// Returns for each link, and behind the links for each shared capacity, the most by which the bound of these prices
    /// rises with it, which limits a row and the columns of the link. Mirrored ones share both.
    fn prices(&self, network: &Scaled, rows: &[f64]) -> Vec<f64> {
        let of_joined = self.prices_of_joined(network, rows);
        let mut of_shared = vec![0.0; network.shared.len()];
        let first = 1 + network.links_with_rows().len();
        for (shared, price) in network.shared_with_rows().into_iter().zip(&rows[first..]) {
            let back = network.shared[shared].opposite.filter(|&back| network.is_mirrored() && back != shared);
            let both = [Some(shared), back].into_iter().flatten();
            let share = (-price).max(0.0) / both.clone().count() as f64;
            both.for_each(|shared| of_shared[shared] = share);
        }
        network.joined.iter().map(|&link| of_joined[link]).chain(of_shared).collect()
    }

    fn prices_of_joined(&self, network: &Scaled, rows: &[f64]) -> Vec<f64> {
        let (reduced, _) = self.reduced(rows);
        let mut prices = vec![0.0; network.ends.len()];
        let is_mirrored = network.is_mirrored();
        let mut add = |link: usize, price: f64| match network.reverse[link].filter(|_| is_mirrored) {
            Some(back) => [link, back].into_iter().for_each(|link| prices[link] += price / 2.0),
            None => prices[link] += price,
        };
        for (link, price) in network.links_with_rows().into_iter().zip(&rows[1..]) {
            add(link, (-price).max(0.0));
        }
        for half in &self.halves {
            half.columns.iter().enumerate().for_each(|(link, &column)| add(link, (-reduced[column]).max(0.0)));
        }
        prices
    }

    /// Adds the cuts that a solution violates; returns its total rate, scaled to satisfy them, and whether there were
    /// new ones.
    fn separate(&mut self, values: &[f64]) -> (f64, bool) {
        let nodes = self.roots.len();
        let roots = self.roots.iter().filter(|&&root| root).count();
        let mean = values[..nodes].iter().sum::<f64>() / roots as f64;
        let rates: Vec<f64> = values[..nodes].iter().map(|rate| (rate - NOISE * mean).max(0.0)).collect();
        let (total, mut least, mut is_new) = (rates.iter().sum::<f64>(), 1.0f64, false);
        if total == 0.0 {
            return (0.0, false);
        }
        for number in 0..self.halves.len() {
            let Half { ends, columns, .. } = &self.halves[number];
            let capacity: Vec<f64> = columns.iter().map(|&column| values[column]).collect();
            let (factor, sets) = find_cuts(&Links { nodes, ends, capacity: &capacity }, &rates, self.ranks);
            least = least.min(factor);
            is_new |= self.add_cuts(number, sets);
        }
        (least * total, is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::from_spec;

    #[test]
    fn the_program_agrees_with_graph_strength_and_with_trees_of_planes() {
        let specs = ["ring:5", "mesh:4x4", "b4", "idn-like", "b4:skew=0.5,seed=3", "random:n=20,links=60,seed=1"];
        let with_switches = ["dgx2", "dgx2:planes=6", "fattree128"];
        for (spec, with_switches) in
            specs.map(|spec| (spec, false)).into_iter().chain(with_switches.map(|spec| (spec, true)))
        {
            let topology = from_spec(spec, None, None).unwrap();
            let known = super::super::bounds(&topology);
            let known = if with_switches { known.in_network.unwrap() } else { known.all_reduce };
            let rate = known.rate.bytes_per_second();
            let found = solve(&topology, 1.7 * rate, with_switches).unwrap();
            assert!(known.exact && found.is_exact() && (found.upper / rate - 1.0).abs() < 2e-7, "{spec}: {found:?}");
        }
    }
}
