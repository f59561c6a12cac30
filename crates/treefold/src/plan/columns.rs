//! A plan as columns, flat lists of numbers, as viewers draw it: the routes of its lanes, and its edges, tree by tree.
//!
//! Cost: linear in the edges and in the links of all routes.

use super::{Direction, Draft, LaneRef, LaneRoutes, Phase, Step};

/// The lanes that the edges of a plan use, each in the direction in which data move, and their routes.
#[derive(Debug, Clone)]
pub struct LaneColumns {
    /// The lanes, in the order of their numbers in these columns.
    pub lanes: Vec<LaneRef>,
    /// Where the links of each lane begin in `links`, and where those of the last one end.
    pub start: Vec<u32>,
    /// The numbers of the links of each route, in order.
    pub links: Vec<u32>,
    /// The number here of each lane of the plan that an edge uses.
    number: Vec<u32>,
}

impl LaneColumns {
    /// Lists the lanes that edges of `plan` use.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("ring", &ring, &Options::default())?;
    /// use treefold::plan::LaneColumns;
    ///
    /// let lanes = LaneColumns::new(&plan);
    /// assert_eq!((lanes.lanes.len(), lanes.start, lanes.links.len()), (4, vec![0, 1, 2, 3, 4], 4), "it goes one way");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(plan: &Draft) -> Self {
        let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
        let mut is_used = vec![false; routes.count()];
        for (phase, tree, direction) in halves(plan) {
            let edges = plan.half(phase, &plan.trees[tree], direction);
            edges.for_each(|edge| is_used[edge.lane.index()] = true);
        }
        let (mut listed, mut number) = (Self { start: vec![0], ..Self::empty() }, vec![u32::MAX; is_used.len()]);
        for index in (0..is_used.len()).filter(|&index| is_used[index]) {
            let lane = LaneRef::from_index(index as u32);
            number[index] = listed.lanes.len() as u32;
            listed.lanes.push(lane);
            listed.links.extend(routes.of(lane).iter().map(|link| link.0));
            listed.start.push(listed.links.len() as u32);
        }
        Self { number, ..listed }
    }

    fn empty() -> Self {
        Self { lanes: Vec::new(), start: Vec::new(), links: Vec::new(), number: Vec::new() }
    }

    /// Returns the number in these columns of a lane that an edge uses.
    pub fn number_of(&self, lane: LaneRef) -> u32 {
        self.number[lane.index()]
    }
}

/// The edges of a plan: tree by tree, and of each tree the reduce half before the broadcast half.
#[derive(Debug, Clone, Default)]
pub struct EdgeColumns {
    /// Where the edges of each half begin, and where those of the last one end: half 2t is the reduce half of tree t,
    /// and half 2t + 1 its broadcast half.
    pub half_start: Vec<u32>,
    /// The lane of each edge, in the direction in which data move.
    pub lane: Vec<LaneRef>,
    /// The step of each edge; `None` in streams.
    pub step: Vec<Option<Step>>,
}

impl EdgeColumns {
    /// Lists the edges of `plan`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("ring", &ring, &Options::default())?;
    /// use treefold::plan::EdgeColumns;
    ///
    /// let edges = EdgeColumns::new(&plan);
    /// assert_eq!(edges.half_start, [0, 3, 6, 9, 12, 15, 18, 21, 24], "four trees, each of two halves of three edges");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(plan: &Draft) -> Self {
        let mut columns = Self { half_start: vec![0], ..Self::default() };
        for (phase, tree, direction) in halves(plan) {
            for edge in plan.half(phase, &plan.trees[tree], direction) {
                columns.lane.push(edge.lane);
                columns.step.push(edge.step);
            }
            columns.half_start.push(columns.lane.len() as u32);
        }
        columns
    }
}

/// Lists the halves of all trees, those that are missing, too: each as its phase, its tree and its direction.
pub(crate) fn halves(plan: &Draft) -> impl Iterator<Item = (&Phase, usize, Direction)> + Clone {
    let trees = plan.phases.iter().flat_map(|phase| phase.trees.clone().map(move |tree| (phase, tree)));
    trees.flat_map(|(phase, tree)| Direction::BOTH.map(|direction| (phase, tree, direction)))
}
