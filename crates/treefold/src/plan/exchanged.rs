//! What a plan of an all-to-all carries: where blocks stand in vectors, and plans with blocks of other sizes.

use std::ops::Range;
use std::sync::Arc;

use super::schedule::cut;
use super::{Collective, Direction, Draft, Edge, Edges, Half, MAX_UNITS, Phase, Plan, Tree};
use crate::blocks::{Blocks, share};
use crate::error::Result;
use crate::topology::NodeId;
use crate::{bail, misfit};

impl Draft {
    /// Returns the share of the block that `giver` has for `receiver`.
    pub(crate) fn share(&self, giver: NodeId, receiver: NodeId) -> u64 {
        share(self.blocks.as_deref(), giver, receiver)
    }

    /// Returns how many shares the largest vector has; each is cut into the units of which a tree's span consists.
    pub(crate) fn shares_of_vector(&self) -> u64 {
        self.blocks.as_ref().map_or(u64::from(self.ranks()), |blocks| blocks.largest())
    }

    /// Returns how many units a share has.
    pub(super) fn units_of_a_share(&self) -> u64 {
        self.units / self.shares_of_vector()
    }

    /// Returns the part of the largest vector that a tree carries, from 0 to 1; in an all-to-all, of the largest
    /// block of its root.
    pub fn part_of(&self, tree: &Tree) -> f64 {
        let others = self.rank_ids().filter(|&rank| rank != tree.root);
        let shares = match &self.blocks {
            Some(blocks) => others.map(|rank| blocks.share(tree.root, rank)).max().unwrap_or(0),
            None => 1,
        };
        (tree.units() * shares) as f64 / self.units as f64
    }

    /// Returns how many elements the vector of `rank` has if the largest one has `elements`.
    pub(crate) fn vector(&self, elements: u64, rank: NodeId) -> u64 {
        match &self.blocks {
            Some(blocks) => cut(elements, blocks.largest(), blocks.of_vector(rank)),
            None => elements,
        }
    }

    /// Returns the elements, within the vector of `giver`, of these units of each share of its block for `receiver`.
    pub(super) fn part_of_block(
        &self,
        elements: u64,
        giver: NodeId,
        receiver: NodeId,
        units: &Range<u64>,
    ) -> Range<u64> {
        let of_share = self.units_of_a_share();
        let (before, share) = match &self.blocks {
            Some(blocks) => (blocks.before(giver, receiver), blocks.share(giver, receiver)),
            None => (u64::from(receiver), 1),
        };
        let at = |unit| cut(elements, self.units, before * of_share + share * unit);
        at(units.start)..at(units.end)
    }

    /// Returns for each edge of a tree out of `root`, in breadth-first order, the shares of all ranks below it, its own
    /// end included.
    pub(crate) fn shares_below(&self, root: NodeId, edges: &[Edge]) -> Vec<u64> {
        let mut at_node = vec![0u64; self.topology.nodes().len()];
        let mut below = vec![0; edges.len()];
        for (edge, shares) in edges.iter().zip(&mut below).rev() {
            let own = if self.topology.is_rank(edge.child) { self.share(root, edge.child) } else { 0 };
            *shares = at_node[edge.child] + own;
            at_node[edge.parent] += *shares;
        }
        below
    }

    /// Returns the plan for blocks of these sizes, along the same trees, without edges that would carry nothing.
    fn with_blocks(&self, blocks: Option<Arc<Blocks>>) -> Result<Self> {
        let ranks = self.ranks();
        if self.collective != Collective::AllToAll {
            bail!("blocks have sizes in an all-to-all only; this is a plan of an {}", self.collective);
        }
        if let Some(of) = blocks.as_ref().map(|blocks| blocks.ranks()).filter(|&of| of != ranks) {
            bail!("blocks are for {of} ranks, but the plan has {ranks}");
        }
        let edges = Edges::default();
        let mut changed = Self { blocks, edges, phases: Vec::new(), trees: Vec::new(), ..self.clone() };
        let shares = changed.shares_of_vector();
        // Spans of many shares are rounded, which changes rates by less than 1 in 4000.
        changed.units = shares * self.units_of_a_share().min(MAX_UNITS / shares);
        for phase in &self.phases {
            let trees = self.trees_of(phase).iter().map(|tree| self.pruned(phase, tree, &mut changed)).collect();
            changed.push_phase(phase.pace, trees);
        }
        Ok(changed)
    }

    /// Returns a tree whose edges, without those that carry nothing, stand in another plan, which may have shares of
    /// other units.
    fn pruned(&self, phase: &Phase, tree: &Tree, changed: &mut Self) -> Tree {
        let [from, to] = [self.units_of_a_share(), changed.units_of_a_share()];
        let span = cut(to, from, tree.span.start)..cut(to, from, tree.span.end);
        let edges: Vec<Edge> = self.half(phase, tree, Direction::Down).collect();
        let shares = changed.shares_below(tree.root, &edges);
        let kept = edges.iter().zip(shares).filter(|&(_, shares)| shares > 0);
        let down = changed.own_half(kept.map(|(edge, _)| (edge.lane.lane(), edge.step)));
        Tree { span, down, up: Half::None, ..tree.clone() }
    }
}

impl Plan {
    /// Returns the plan of an all-to-all for blocks of these sizes, along the same trees; `None` stands for equal ones.
    ///
    /// # Errors
    /// If it is no all-to-all or has another number of ranks, or if ranks get blocks for which the plan has no way, as
    /// it was made for empty ones.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::blocks::Blocks;
    /// use treefold::plan::Collective;
    /// use treefold::planners::{self, Options};
    /// use treefold::topology::from_spec;
    ///
    /// let ring = Arc::new(from_spec("ring:3", None, None)?);
    /// let options = Options { collective: Collective::AllToAll, ..Options::default() };
    /// let plan = planners::plan("forest", &ring, &options)?;
    /// let skewed = plan.with_blocks(Blocks::new(3, &[0, 1, 0, 1, 0, 0, 4, 4, 0])?)?;
    /// assert_eq!(skewed.pairs().len(), 3);
    /// assert!(skewed.rate() < plan.rate(), "rank 2 sends all of the largest vector");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn with_blocks(&self, blocks: Option<Arc<Blocks>>) -> Result<Self> {
        if self.blocks == blocks {
            return Ok(self.clone());
        }
        let changed = Draft::with_blocks(self, blocks)?;
        if let Some((giver, receiver)) = self.missing_way(&changed) {
            misfit!(
                "rank {giver} has a block for rank {receiver}, and the plan was made for blocks in which it has none, \
                 so it has no way between them; plan anew with these blocks, or begin with a plan for equal blocks, \
                 which serves blocks of any sizes"
            );
        }
        Ok(changed.trusted())
    }

    /// Returns ranks with a block for which this plan has no way, as it was made for an empty one; `None` if there are
    /// none.
    fn missing_way(&self, changed: &Draft) -> Option<(NodeId, NodeId)> {
        let pairs = self.rank_ids().flat_map(|giver| self.rank_ids().map(move |receiver| (giver, receiver)));
        pairs
            .filter(|&(giver, receiver)| giver != receiver)
            .find(|&(giver, receiver)| self.share(giver, receiver) == 0 && changed.share(giver, receiver) > 0)
    }
}
