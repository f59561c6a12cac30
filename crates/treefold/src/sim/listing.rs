//! The transfers of a trace in the order of the plan's edges, and which of them carry the data of each edge.
//!
//! A simulator lists transfers as they end, or in no order at all. Here they stand tree by tree, reduce half before
//! broadcast half, edge by edge in the order of the plan, and chunk by chunk. A transfer names one tree. Where a
//! message carries parts of several trees, or one partial sum for several, it stands at the edge of the first of them,
//! and the edges of the others refer to it, too. Nothing but plan and transfers is needed, wherever the transfers come
//! from.
//!
//! Cost: two counting sorts, linear in transfers and edges, and a sort of the edges of phases in which messages carry
//! parts of several trees. Memory: 8 bytes an edge, and 4 bytes a transfer (8 while it is made).

use std::ops::Range;

use super::numbers::numbers;
use super::trace::Transfer;
use crate::bail;
use crate::error::Result;
use crate::plan::{Direction, Draft, Phase, halves};
use crate::topology::LinkId;

numbers! {
    /// A transfer, by its place in a listing.
    Listed;
}

/// The transfers of a trace in the order of the plan's edges.
#[derive(Debug, Clone)]
pub struct Listing {
    /// For each place, which of the trace's transfers stands there.
    pub order: Vec<u32>,
    /// The first transfer of each edge; `None` if nothing is sent for it.
    pub edge_transfer: Vec<Option<Listed>>,
    /// How many transfers each edge has; they follow each other.
    pub edge_chunks: Vec<u32>,
    /// Where the edges of each half begin, as in [`crate::plan::EdgeColumns`].
    pub half_start: Vec<u32>,
}

impl Listing {
    /// Lists `transfers`, which are those of `plan`, all or some.
    ///
    /// # Errors
    /// If a transfer is on no edge of the plan.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// use treefold::sim::{Watch, flow, listing::Listing};
    /// use treefold::units::Bytes;
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("ring", &ring, &Options::default())?;
    /// let trace = flow::simulate(&plan, Bytes::known(4096), Watch::TRANSFERS)?;
    /// let listing = Listing::new(&plan, &trace.transfers)?;
    /// let trees: Vec<u32> = listing.transfers(&trace.transfers).map(|transfer| transfer.tree).collect();
    /// assert!(trees.is_sorted() && trees.len() == trace.transfers.len());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(plan: &Draft, transfers: &[Transfer]) -> Result<Self> {
        let edges = plan.lanes.len() * 2;
        let mut lister = Lister { plan, transfers, edge_of: [vec![(0, 0); edges], vec![(0, 0); edges]] };
        let mut listing = lister.list(&by_tree(plan, transfers)?)?;
        if !transfers.is_empty() {
            listing.share(plan);
        }
        Ok(listing)
    }

    /// Returns how many transfers there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether there is no transfer.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the numbers of all transfers.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = Listed> + use<> {
        (0..self.order.len() as u32).map(Listed::new)
    }

    /// Returns the transfer with this number, one of `transfers`, those of the trace.
    pub fn get<'a>(&self, transfers: &'a [Transfer], number: Listed) -> &'a Transfer {
        &transfers[self.order[number.index()] as usize]
    }

    /// Returns `transfers`, those of the trace, in this order.
    pub fn transfers<'a>(&'a self, transfers: &'a [Transfer]) -> impl ExactSizeIterator<Item = &'a Transfer> {
        self.order.iter().map(|&place| &transfers[place as usize])
    }

    /// Returns the numbers of the transfers of an edge.
    pub fn of_edge(&self, edge: usize) -> Range<u32> {
        self.edge_transfer[edge].map_or(0..0, |first| first.get()..first.get() + self.edge_chunks[edge])
    }

    /// Returns the edges of half a tree.
    pub fn edges_of(&self, tree: usize, direction: Direction) -> Range<usize> {
        let half = 2 * tree + usize::from(direction == Direction::Down);
        self.half_start[half] as usize..self.half_start[half + 1] as usize
    }

    /// Returns the numbers of all transfers that carry data of a tree, in rising order.
    ///
    /// # Errors
    /// If the plan has no such tree.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # use treefold::sim::{Watch, flow, listing::Listing};
    /// # use treefold::units::Bytes;
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("ring", &ring, &Options::default())?;
    /// let trace = flow::simulate(&plan, Bytes::known(4096), Watch::TRANSFERS)?;
    /// let listing = Listing::new(&plan, &trace.transfers)?;
    /// assert_eq!(listing.transfers_of_tree(1)?, [6, 7, 8, 9, 10, 11]);
    /// assert!(listing.transfers_of_tree(4).is_err());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn transfers_of_tree(&self, tree: usize) -> Result<Vec<u32>> {
        let trees = self.half_start.len() / 2;
        if tree >= trees {
            bail!("there is no tree {tree}; the plan has {trees}, counted from 0");
        }
        let [up, down] = Direction::BOTH.map(|direction| self.edges_of(tree, direction));
        Ok(self.of_edges(up.start..down.end))
    }

    /// Returns the numbers of all transfers whose routes have a link, in rising order.
    ///
    /// # Errors
    /// If the network has no such link.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # use treefold::sim::{Watch, flow, listing::Listing};
    /// # use treefold::units::Bytes;
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("ring", &ring, &Options::default())?;
    /// let trace = flow::simulate(&plan, Bytes::known(4096), Watch::TRANSFERS)?;
    /// let listing = Listing::new(&plan, &trace.transfers)?;
    /// assert_eq!(listing.transfers_of_link(&plan, 1)?.len(), 6);
    /// assert!(listing.transfers_of_link(&plan, 8).is_err());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn transfers_of_link(&self, plan: &Draft, link: usize) -> Result<Vec<u32>> {
        let links = plan.topology.links().len();
        if link >= links {
            bail!("there is no link {link}; the network has {links}, counted from 0");
        }
        let routes = crate::plan::LaneRoutes::new(&plan.topology, &plan.lanes);
        let lanes = (0..routes.count() as u32).map(crate::plan::LaneRef::from_index);
        let has_link: Vec<bool> = lanes.map(|lane| routes.of(lane).contains(&LinkId::new(link))).collect();
        let edges = halves(plan).flat_map(|(phase, tree, half)| plan.half(phase, &plan.trees[tree], half));
        let numbered = edges.enumerate().filter(|(_, edge)| has_link[edge.lane.index()]);
        Ok(self.of_edges(numbered.map(|(number, _)| number)))
    }

    /// Returns the numbers of the transfers of these edges, in rising order, each once.
    fn of_edges(&self, edges: impl Iterator<Item = usize>) -> Vec<u32> {
        let mut numbers: Vec<u32> = edges.flat_map(|edge| self.of_edge(edge)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Lets the edges that have no transfers of their own refer to those that carry their parts, in all phases.
    fn share(&mut self, plan: &Draft) {
        for phase in plan.phases.iter().filter(|phase| !phase.pace.is_stream() && !phase.trees.is_empty()) {
            let carries = |&tree: &usize| plan.trees[tree].units() > 0;
            let is_open = |tree| {
                let edges = self.half_start[2 * tree] as usize..self.half_start[2 * tree + 2] as usize;
                self.edge_chunks[edges].contains(&0)
            };
            if phase.trees.clone().filter(carries).any(is_open) {
                match plan.equal_sums(phase) {
                    Some(sums) => self.share_sums(plan, phase, sums.of_edge.iter().map(|message| message.index())),
                    None => self.share_messages(plan, phase),
                }
            }
        }
    }

    /// Lets all edges of each partial sum refer to the transfer of the first; `messages` has the message of each edge.
    fn share_sums(&mut self, plan: &Draft, phase: &Phase, messages: impl Iterator<Item = usize>) {
        let carrying = phase.trees.clone().filter(|&tree| plan.trees[tree].units() > 0);
        let edges: Vec<usize> = carrying.flat_map(|tree| self.edges_of(tree, Direction::Up).rev()).collect();
        let mut first: Vec<Option<usize>> = vec![None; edges.len()];
        for (edge, message) in edges.into_iter().zip(messages) {
            let owner = *first[message].get_or_insert(edge);
            self.refer(edge, owner);
        }
    }

    /// Lets all edges with one lane and step refer to the transfer of the first. Where several transfers have them, as
    /// the packet simulator keeps partial sums and results apart, that of the last edge before in the same direction.
    fn share_messages(&mut self, plan: &Draft, phase: &Phase) {
        let mut edges = Vec::new();
        for tree in phase.trees.clone().filter(|&tree| plan.trees[tree].units() > 0) {
            for direction in Direction::BOTH {
                let numbered = self.edges_of(tree, direction).zip(plan.half(phase, &plan.trees[tree], direction));
                let goes_down = direction == Direction::Down;
                edges.extend(numbered.map(|(number, edge)| ((edge.step, edge.lane), number, usize::from(goes_down))));
            }
        }
        edges.sort_unstable();
        for message in edges.chunk_by(|a, b| a.0 == b.0) {
            let mut last = [None; 2];
            for &(_, edge, half) in message {
                if self.edge_chunks[edge] > 0 {
                    last[half] = Some(edge);
                } else if let Some(owner) = last[half].or(last[1 - half]) {
                    self.refer(edge, owner);
                }
            }
        }
    }

    fn refer(&mut self, edge: usize, owner: usize) {
        self.edge_transfer[edge] = self.edge_transfer[owner];
        self.edge_chunks[edge] = self.edge_chunks[owner];
    }
}

/// The places of transfers in a trace, tree by tree.
struct ByTree {
    first: Vec<u32>,
    places: Vec<u32>,
}

/// Sorts transfers by their trees; those of one tree stay in order.
fn by_tree(plan: &Draft, transfers: &[Transfer]) -> Result<ByTree> {
    let trees = plan.trees.len();
    let mut first = vec![0u32; trees + 1];
    for (number, transfer) in transfers.iter().enumerate() {
        let Some(count) = first[1..].get_mut(transfer.tree as usize) else {
            bail!("transfer {number} is of tree {}, but the plan has {trees}, counted from 0", transfer.tree);
        };
        *count += 1;
    }
    (0..trees).for_each(|tree| first[tree + 1] += first[tree]);
    let (mut next, mut places) = (first.clone(), vec![0; transfers.len()]);
    for (number, transfer) in (0..).zip(transfers) {
        let place = &mut next[transfer.tree as usize];
        places[*place as usize] = number;
        *place += 1;
    }
    Ok(ByTree { first, places })
}

/// Finds the edges of transfers, tree by tree.
struct Lister<'a> {
    plan: &'a Draft,
    transfers: &'a [Transfer],
    /// For each direction and lane, the last tree that has an edge there, counted from 1, and the number of that edge.
    edge_of: [Vec<(u32, u32)>; 2],
}

impl Lister<'_> {
    /// Lists the transfers at the edges that they name.
    fn list(&mut self, by_tree: &ByTree) -> Result<Listing> {
        let plan = self.plan;
        let mut half_start = vec![0];
        let (mut edge_transfer, mut edge_chunks) = (Vec::new(), Vec::<u32>::new());
        let mut order = vec![0; self.transfers.len()];
        for (phase, tree, direction) in halves(plan) {
            for edge in plan.half(phase, &plan.trees[tree], direction) {
                self.edge_of[half(direction)][edge.lane.index()] = (tree as u32 + 1, edge_chunks.len() as u32);
                edge_chunks.push(0);
            }
            half_start.push(edge_chunks.len() as u32);
            if direction == Direction::Down {
                let first_edge = half_start[2 * tree] as usize;
                let range = by_tree.first[tree] as usize..by_tree.first[tree + 1] as usize;
                let chunks = &mut edge_chunks[first_edge..];
                let firsts =
                    self.place(&by_tree.places[range.clone()], first_edge, chunks, &mut order[range.clone()])?;
                let numbered = firsts.zip(chunks).map(|(first, &mut count)| (count > 0).then_some(first));
                edge_transfer.extend(numbered.map(|first| Some(Listed::new(range.start as u32 + first?))));
            }
        }
        Ok(Listing { order, edge_transfer, edge_chunks, half_start })
    }

    /// Puts the transfers of a tree, which stand at these `places` of the trace, in the order of its edges; counts them
    /// in `chunks`, and returns where those of each edge begin.
    fn place(
        &self,
        places: &[u32],
        first_edge: usize,
        chunks: &mut [u32],
        order: &mut [u32],
    ) -> Result<std::vec::IntoIter<u32>> {
        for &place in places {
            chunks[self.edge(place)? - first_edge] += 1;
        }
        let ends = chunks.iter().scan(0, |end, count| {
            *end += count;
            Some(*end - count)
        });
        let firsts: Vec<u32> = ends.collect();
        let mut next = firsts.clone();
        for &place in places {
            let next = &mut next[self.edge(place)? - first_edge];
            order[*next as usize] = place;
            *next += 1;
        }
        for (&first, &count) in firsts.iter().zip(&*chunks).filter(|&(_, &count)| count > 1) {
            let of_edge = &mut order[first as usize..(first + count) as usize];
            of_edge.sort_by_key(|&place| self.transfers[place as usize].chunk);
        }
        Ok(firsts.into_iter())
    }

    /// Returns the edge that a transfer is on. What a personalized collective sends up is no partial sum, so if no edge
    /// of the half that reduces has the lane, it may be one of the other half.
    fn edge(&self, place: u32) -> Result<usize> {
        let transfer = &self.transfers[place as usize];
        let (tree, lane) = (transfer.tree, transfer.lane.index());
        let own = if transfer.reduces { Direction::Up } else { Direction::Down };
        let halves = [half(own), 1 - half(own)];
        let found = halves.into_iter().filter_map(|half| self.edge_of[half].get(lane));
        match found.into_iter().find(|&&(last, _)| last == tree + 1) {
            Some(&(_, edge)) => Ok(edge as usize),
            None => bail!("transfer {place} is of tree {tree}, but on no edge of it; the trace is not of this plan"),
        }
    }
}

fn half(direction: Direction) -> usize {
    usize::from(direction == Direction::Down)
}
