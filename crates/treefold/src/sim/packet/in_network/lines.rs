//! The lines of a vector: which tree reduces each, in which order ranks send them, what their sums must be.
//!
//! A line is what a packet carries. Lines are dealt to trees in turn, each as often as its part of the vector is large,
//! so that neighbouring addresses have homes in different switches; or by a hash of the address.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::options::HomeMapping;
use super::super::workload::ELEMENT;
use super::mixed;
use super::operand::Operand;
use super::packet::Address;
use super::parameters::Parameters;
use super::regions::{Method, Regions};
use crate::error::Result;
use crate::misfit;
use crate::plan::Plan;
use crate::topology::NodeId;
use crate::units::Bytes;

/// The seed that makes the hash of homes another one than that of home accelerators.
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;
/// The most lines of a vector: more would take gigabytes.
const MOST: u64 = 1 << 25;

/// The line that ends the vector, and may be shorter than others.
#[derive(Debug, Clone, Copy)]
struct LastLine {
    address: Address,
    /// How many flits its packets have, headers included.
    flits: u32,
}

/// The lines of a vector.
#[derive(Debug, Default)]
pub struct Lines {
    /// Number of each tree's first line.
    first: Vec<u64>,
    /// What all contribute to each line.
    total: Vec<Operand>,
    last: Option<LastLine>,
    /// What each rank sends in turn; one order for all where all send the same.
    orders: Vec<Vec<Address>>,
    /// The place of each line in that order: for each rank, or for all where no two ranks differ.
    places: Vec<Vec<u32>>,
}

impl Lines {
    /// Deals out the lines of a vector of `size` to the trees of `plan`.
    ///
    /// # Errors
    /// If there are more lines than can be kept.
    pub fn new(plan: &Plan, regions: &Regions, size: Bytes, parameters: &Parameters) -> Result<Self> {
        if regions.regions.is_empty() {
            return Ok(Self::default());
        }
        let bytes = size.get().div_ceil(ELEMENT) * ELEMENT;
        let count = bytes.div_ceil(parameters.line);
        if count > MOST {
            misfit!(
                "{bytes} bytes are {count} packets a rank, and the packet simulator counts operands of {MOST} at \
                 most: use the flow simulator"
            );
        }
        let homes = if regions.all(Method::Push) { parameters.fabric.home_mapping } else { HomeMapping::Interleaved };
        let addresses = match homes {
            HomeMapping::Interleaved => in_turn(plan, count),
            HomeMapping::Hashed => hashed(in_turn(plan, count), regions.home_ports),
        };
        let mut counts = vec![0; plan.trees.len()];
        addresses.iter().for_each(|address| counts[address.tree as usize] += 1);
        let mut lines = Self::default();
        let mut first = 0;
        for count in counts {
            lines.first.push(first);
            first += count;
        }
        lines.total = vec![Operand::default(); addresses.len()];
        for &address in &addresses {
            let number = lines.number(address) as usize;
            let total = &mut lines.total[number];
            let reducer = parameters.reducer;
            let operands = regions.contributors(address.tree).map(|rank| reducer.operand(rank, address));
            operands.for_each(|operand| total.add(operand, reducer.combine));
        }
        let rest = bytes - count.saturating_sub(1) * parameters.line;
        let flits = parameters.header_flits + rest.div_ceil(parameters.flit) as u32;
        lines.last = addresses.last().map(|&address| LastLine { address, flits });
        lines.orders = orders(regions, addresses);
        lines.places = lines.places_of(regions);
        Ok(lines)
    }

    /// Lists the places of all lines in each rank's order.
    fn places_of(&self, regions: &Regions) -> Vec<Vec<u32>> {
        let no_push = regions.regions.iter().all(|region| region.method != Method::Push);
        // A line that is not pushed is in one order only.
        let kept = if no_push { 1 } else { self.orders.len() };
        let mut places = vec![vec![0; self.total.len()]; kept];
        for (rank, order) in self.orders.iter().enumerate() {
            for (at, &address) in (0..).zip(order) {
                places[rank % kept][self.number(address) as usize] = at;
            }
        }
        places
    }

    /// Counts the lines.
    pub fn count(&self) -> u64 {
        self.total.len() as u64
    }

    /// Counts the lines of a tree.
    pub fn of_tree(&self, tree: u32) -> u64 {
        let next = self.first.get(tree as usize + 1).copied().unwrap_or_else(|| self.count());
        next - self.first[tree as usize]
    }

    /// Returns the number of a line among those of all trees.
    pub fn number(&self, address: Address) -> u64 {
        self.first[address.tree as usize] + u64::from(address.line())
    }

    /// Returns the flits of a packet with a line.
    pub fn flits(&self, address: Address, parameters: &Parameters) -> u32 {
        self.last.filter(|last| last.address == address).map_or(parameters.packet_flits, |last| last.flits)
    }

    /// Returns the lines that a rank sends, in turn.
    pub fn order(&self, rank: NodeId) -> &[Address] {
        &self.orders[rank.index() % self.orders.len()]
    }

    /// Returns the place of a line in the order in which a rank sends.
    pub fn place(&self, rank: NodeId, address: Address) -> u64 {
        self.places[rank.index() % self.places.len()][self.number(address) as usize].into()
    }

    /// Returns what all contribute to a line, in the order of ranks.
    pub fn total(&self, address: Address) -> Operand {
        self.total[self.number(address) as usize]
    }
}

/// Lists by rank, in order, the lines that it pushes, and those that it pulls or gives to all itself.
fn orders(regions: &Regions, addresses: Vec<Address>) -> Vec<Vec<Address>> {
    if regions.all(Method::Push) {
        return vec![addresses];
    }
    let own = |rank: NodeId, tree: u32| {
        let region = &regions.regions[tree as usize];
        region.method == Method::Push || region.root == rank
    };
    let of_rank = |rank| addresses.iter().copied().filter(|address| own(rank, address.tree)).collect();
    NodeId::first(regions.ranks as usize).map(of_rank).collect()
}

/// Chooses the accelerator that adds up partial sums of a line.
pub fn home_of(address: Address, ranks: u32) -> NodeId {
    NodeId((mixed(7, 0, address.bits()) % u64::from(ranks)) as u32)
}

/// Deals out lines to trees in turn, to each as often as its part of the vector is large; every root's first trees come
/// first.
fn in_turn(plan: &Plan, count: u64) -> Vec<Address> {
    let mut of_root = vec![0u32; plan.topology.nodes().len()];
    // After k lines a tree of n units is next at (2 k + 1) / n, scaled to whole numbers.
    let next = |lines: u64, tree: u32| {
        u128::from(2 * lines + 1) * u128::from(plan.units) / u128::from(plan.trees[tree as usize].units())
    };
    let mut turns = BinaryHeap::new();
    for (number, tree) in (0..).zip(&plan.trees) {
        let nth = &mut of_root[tree.root];
        *nth += 1;
        if tree.units() > 0 {
            turns.push(Reverse((next(0, number), *nth, number, 0)));
        }
    }
    let mut addresses = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let Some(Reverse((_, nth, tree, lines))) = turns.pop() else { break };
        addresses.push(Address::new(tree, lines as u32));
        turns.push(Reverse((next(lines + 1, tree), nth, tree, lines + 1)));
    }
    addresses
}

/// Chooses the home ports of lines by a hash of their addresses. As with hashes of address bits, it is one-to-one on
/// every aligned block of as many lines as there are ports: these are dealt out in turn, and the ports of each block
/// come in an order of its own. Every port is home to as many lines, and a table that holds two is enough, as lines of
/// one port are a block apart on average, and three of them never within a block's length.
fn hashed(mut addresses: Vec<Address>, ports: usize) -> Vec<Address> {
    let hash = |address: &Address| mixed(SALT, 0, address.bits());
    addresses.chunks_mut(ports).for_each(|block| block.sort_by_cached_key(hash));
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four trees of one port each: a home is its tree.
    fn homes(lines: u32) -> Vec<Address> {
        hashed((0..lines).map(|line| Address::new(line % 4, line / 4)).collect(), 4)
    }

    #[test]
    fn a_hash_gives_each_port_one_line_of_every_block_in_an_order_of_its_own() {
        let hashed = homes(4000);
        let blocks: Vec<Vec<u32>> =
            hashed.chunks(4).map(|block| block.iter().map(|address| address.tree).collect()).collect();
        let mut orders: Vec<&Vec<u32>> = blocks.iter().collect();
        orders.sort_unstable();
        orders.dedup();
        assert_eq!(orders.len(), 24, "all orders of four ports come");
        for mut block in blocks {
            block.sort_unstable();
            assert_eq!(block, [0, 1, 2, 3]);
        }
        let (mut sorted, mut all) = (hashed.clone(), homes(0));
        sorted.sort_unstable_by_key(|address| (address.line(), address.tree));
        all.extend((0..4000).map(|line| Address::new(line % 4, line / 4)));
        assert_eq!(sorted, all, "every line is there once");
    }
}
