//! The trees from which a planner chooses, and what each takes of the network.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use super::Heights;
use super::shares::Columns;
use super::spanning::{self, Lengths, Rated, Resources, SpanningTree};
use crate::plan::{Chunk, Draft};
use crate::topology::Topology;

/// Trees of one network, none twice, and their columns in linear programs.
#[derive(Clone)]
pub(super) struct Pool {
    topology: Arc<Topology>,
    pub resources: Resources,
    pub trees: Vec<SpanningTree>,
    pub columns: Columns,
    /// The hashes of the trees. If two were alike, a tree would be left out, which does no harm.
    known: HashSet<u64>,
}

impl Pool {
    /// Returns a pool of these trees, which compete for `resources`.
    pub fn new(topology: &Arc<Topology>, resources: Resources, trees: impl IntoIterator<Item = SpanningTree>) -> Self {
        let (topology, columns) = (Arc::clone(topology), Columns::new(&resources));
        let mut pool = Self { topology, resources, trees: Vec::new(), columns, known: HashSet::new() };
        pool.extend(trees);
        pool
    }

    /// Adds trees, but none that the pool has.
    pub fn extend(&mut self, trees: impl IntoIterator<Item = SpanningTree>) {
        for tree in trees {
            if self.known.insert(hash(&tree)) {
                self.columns.push(self.resources.usage(&tree));
                self.trees.push(tree);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.trees.len()
    }

    /// Returns a pool of the trees with these numbers.
    pub fn select(&self, trees: &[usize]) -> Self {
        let chosen: Vec<SpanningTree> = trees.iter().map(|&tree| self.trees[tree].clone()).collect();
        let (columns, known) = (self.columns.select(trees), chosen.iter().map(hash).collect());
        Self { topology: Arc::clone(&self.topology), resources: self.resources.clone(), trees: chosen, columns, known }
    }

    /// Returns a pool of the trees that are not higher than this.
    pub fn within(&self, height: u64, unit: Heights) -> Self {
        let heights = self.heights(unit);
        let low: Vec<usize> = (0..self.len()).filter(|&tree| heights[tree] <= height).collect();
        self.select(&low)
    }

    /// Returns the height of each tree.
    pub fn heights(&self, unit: Heights) -> Vec<u64> {
        let lengths = Lengths::new(&self.topology, unit);
        self.trees.iter().map(|tree| lengths.height(&self.topology, tree)).collect()
    }

    /// Returns the rate of each tree in a list of rated trees, 0 for those that it lacks.
    pub fn rates_of(&self, rated: &[Rated]) -> Vec<f64> {
        let rate = |tree: &SpanningTree| rated.iter().filter(|rated| rated.tree == *tree).map(|rated| rated.rate).sum();
        self.trees.iter().map(rate).collect()
    }

    /// Lists the trees that carry something at these rates.
    pub fn rated(&self, rates: &[f64]) -> Vec<Rated> {
        let rated = |(tree, &rate): (&SpanningTree, &f64)| Rated { tree: tree.clone(), rate };
        self.trees.iter().zip(rates).filter(|&(_, &rate)| rate > 0.0).map(rated).collect()
    }

    /// Returns the streamed plan of trees of this network.
    pub fn plan(topology: &Arc<Topology>, algorithm: &str, rated: &[Rated], pipeline: bool) -> Draft {
        spanning::plan(topology, algorithm, rated, if pipeline { Chunk::Best } else { Chunk::One })
    }
}

fn hash(tree: &SpanningTree) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(tree)
}
