//! The options of the planners. Each planner reads those that concern it, which `x-planners` lists.

use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{PLANNERS, Planner};
use crate::blocks::Blocks;
use crate::error::Result;
use crate::ids::NodeId;
use crate::misfit;
use crate::options::{self, properties};
use crate::plan::Collective;
use crate::units::{Bandwidth, Bytes};

/// The options that a caller may set for a planner, and what the plan is for: the size of the vector and the
/// collective.
///
/// ```
/// use serde_json::json;
/// use treefold::options::Options as _;
/// use treefold::planners::Options;
///
/// let given = json!({ "trees": 4, "neighbor_order": "reversed" });
/// let options = Options::read(given.as_object().unwrap())?;
/// assert_eq!((options.trees, options.seed), (Some(4), 1), "what is not given keeps its default");
/// let wrong = json!({ "trees": 0 });
/// assert!(Options::read(wrong.as_object().unwrap()).is_err());
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Options {
    /// The size of the vector that the plan should be good for.
    #[serde(skip)]
    pub size: Bytes,
    /// The collective that the plan computes.
    #[serde(skip)]
    pub collective: Collective,
    /// The rank that gives or gets what the others do not, if the collective has a root.
    #[serde(skip)]
    pub root: NodeId,
    /// The sizes of the blocks of an all-to-all; they are equal unless they are given.
    #[serde(skip)]
    pub blocks: Option<Arc<Blocks>>,
    /// Whether ranks may relay data of other ranks; the packet simulator's fabric cannot do that.
    #[serde(skip)]
    pub ranks_relay: bool,
    /// Whether forest leaves packings of trees that reduce and broadcast to packing: it is asked for a small part of a
    /// plan, which should be made at once.
    #[serde(skip)]
    pub alone: bool,
    /// The maximum number of trees; multitree makes exactly so many, and auto leaves out algorithms that have no such
    /// limit. By default the algorithm chooses the number, and multitree makes one tree for each rank.
    #[schemars(range(min = 1), extend(
        "x-limit" = true,
        "x-planners" = ["packing", "mtree", "blink", "multitree", "topoadopt", "psld", "plink"],
        "x-paper" = "MTree, section III-B",
    ))]
    pub trees: Option<u32>,
    /// The maximum height of a tree, in the unit that the option heights selects. By default there is no limit.
    #[schemars(range(min = 1), extend(
        "x-limit" = true,
        "x-planners" = ["packing", "mtree"],
        "x-paper" = "MTree, section III-A",
    ))]
    pub height: Option<u32>,
    /// The unit of heights: hops counts the edges of a path; latency counts each link as its latency divided by the
    /// network's smallest latency above 0, rounded up, as in the paper.
    #[schemars(extend("x-planners" = ["packing", "mtree"], "x-paper" = "MTree, section III-A"))]
    pub heights: Heights,
    /// The minimum rate of each tree, for example 10Mbit/s. By default packing has no minimum; that of mtree is 4 % of
    /// the mean bandwidth of the cables, or the highest rate that a single tree can have if that is lower.
    #[schemars(extend(
        "x-limit" = true,
        "x-planners" = ["packing", "mtree"],
        "x-paper" = "MTree, section III-A",
    ))]
    pub least_rate: Option<Bandwidth>,
    /// The maximum number of steps, each of which waits for the one before it. Fewer steps have less latency, and more
    /// of them use bandwidth better; an all-reduce needs twice as many as an all-gather. By default the number has no
    /// limit, and forest takes steps only where they are the fastest.
    #[schemars(range(min = 1), extend("x-limit" = true, "x-planners" = ["forest"], "x-paper" = "SCCL"))]
    pub steps: Option<u32>,
    /// The fraction of the total rate that must remain when mtree replaces its trees by trees of less height, above 0
    /// and at most 1.
    #[schemars(range(max = 1.0), extend(
        "exclusiveMinimum" = 0.0,
        "x-planners" = ["mtree"],
        "x-paper" = "MTree, section III-A",
    ))]
    pub rho: f64,
    /// The rate that mtree gives a tree each time it grows one: at most a quarter of the largest bandwidth of a cable,
    /// so that a tree may be grown several times (quarter), or the smallest capacity that any cable of the network has
    /// left, but at least the least rate, as published (all).
    #[schemars(extend("x-planners" = ["mtree"], "x-paper" = "MTree, Algorithm 1, line 22"))]
    pub tree_rate: TreeRate,
    /// The ranks at which mtree starts to grow a tree: a random rank, and if no tree from it is low enough, the others
    /// in turn (any); or only the random rank, and if that fails, no more trees are grown, as published (one).
    #[schemars(extend("x-planners" = ["mtree"], "x-paper" = "MTree, Algorithm 1, lines 14 and 19"))]
    pub starts: Starts,
    /// The seed of the planner's random choices. The seed of a random network is part of its spec.
    #[schemars(extend("x-planners" = ["mtree", "topoadopt"]))]
    pub seed: u64,
    /// Whether the data of a streamed tree are cut into chunks, which follow each other as in a pipeline; if not, each
    /// node sends its data in one piece.
    #[schemars(extend(
        "x-planners" = ["packing", "mtree", "blink", "innet", "innet-push", "innet-pull", "dbtree", "forest"],
        "x-paper" = "MTree, section III-C",
    ))]
    pub pipeline: bool,
    /// The algorithm that reduce-scatters and all-gathers inside the groups of ranks. By default hierarchical tries a
    /// few, and takes the fastest.
    #[schemars(extend("x-planners" = ["hierarchical"], "x-paper" = "BlueConnect"))]
    pub inside: Option<Level>,
    /// The algorithm that all-reduces between the groups of ranks. By default hierarchical tries a few, and takes the
    /// fastest.
    #[schemars(extend("x-planners" = ["hierarchical"], "x-paper" = "BlueConnect"))]
    pub between: Option<Level>,
    /// The order in which trees take turns within a step: by their roots (ascending), or the tree that has farthest to
    /// go first (remaining-height). By default multitree tries both on direct networks that are no grids and have at
    /// most 1024 ranks, and keeps the faster plan; on all other networks the order is ascending.
    #[schemars(extend("x-planners" = ["multitree"], "x-paper" = "MultiTree, Algorithm 1"))]
    pub tree_order: Option<TreeOrder>,
    /// The order in which multitree tries a node's links: the order of the network, which on grids is north, south,
    /// west, east (listed), or its reverse (reversed).
    #[schemars(extend("x-planners" = ["multitree"], "x-paper" = "MultiTree, section III-C"))]
    pub neighbor_order: NeighborOrder,
    /// The choice among equally long routes to the switch that reduces an address: by the rank that sends (source), or
    /// by the address (address).
    #[schemars(extend("x-planners" = ["innet-push"], "x-paper" = "in-network, section IV-C"))]
    pub route_by: RouteBy,
}

impl options::Options for Options {
    const WHAT: &'static str = "planner";

    fn schema() -> &'static Value {
        static SCHEMA: LazyLock<Value> = LazyLock::new(options::schema_of::<Options>);
        &SCHEMA
    }
}

impl Options {
    /// Returns the planners that can keep all limits that are set: all if there is none.
    ///
    /// # Errors
    /// If no planner can keep them all at once; the error names those that keep each.
    pub(crate) fn able(&self) -> Result<Vec<&'static Planner>> {
        let set: Vec<&str> = self.set_limits();
        let able: Vec<&Planner> =
            PLANNERS.iter().filter(|planner| set.iter().all(|limit| keepers(limit).contains(&planner.name))).collect();
        if able.is_empty() {
            let who: Vec<String> = set.iter().map(|limit| accept(&keepers(limit), limit)).collect();
            misfit!("no algorithm keeps {} at once: {}", set.join(" and "), who.join(", "));
        }
        Ok(able)
    }

    /// Returns the names of the limits that are not at their defaults.
    fn set_limits(&self) -> Vec<&'static str> {
        let written = |options: &Self| serde_json::to_value(options).expect("options are written as an object");
        let (given, default) = (written(self), written(&Self::default()));
        let limits = properties::<Self>().iter().filter(|(_, declared)| declared["x-limit"] == true);
        limits.map(|(name, _)| name.as_str()).filter(|&name| given[name] != default[name]).collect()
    }

    /// Returns what changes the trees of `packing` and `mtree`, all else at its default: the key of what is found for
    /// all sizes.
    pub(super) fn limits(&self) -> Self {
        let Self { trees, height, heights, least_rate, rho, tree_rate, starts, seed, .. } = self.clone();
        Self { trees, height, heights, least_rate, rho, tree_rate, starts, seed, ..Self::default() }
    }
}

/// Returns the options that a planner reads, but those of all planners: the name of each, and whether it is a limit.
pub(super) fn of(planner: &str) -> impl Iterator<Item = (&'static str, bool)> {
    let is_own = move |declared: &Value| {
        declared["x-planners"].as_array().is_some_and(|own| own.iter().any(|name| name == planner))
    };
    let own = properties::<Options>().iter().filter(move |(_, declared)| is_own(declared));
    own.map(|(name, declared)| (name.as_str(), declared["x-limit"] == true))
}

/// Returns the planners that keep a limit.
fn keepers(limit: &str) -> Vec<&'static str> {
    let names = properties::<Options>()[limit]["x-planners"].as_array().expect("a limit names its planners");
    names.iter().filter_map(Value::as_str).collect()
}

/// Says which planners accept a limit: `packing and mtree accept height`.
fn accept(planners: &[&str], limit: &str) -> String {
    match planners {
        [others @ .., last] if !others.is_empty() => format!("{} and {last} accept {limit}", others.join(", ")),
        _ => format!("{} accepts {limit}", planners.concat()),
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            size: Bytes::known(64 << 20),
            collective: Collective::AllReduce,
            root: NodeId(0),
            blocks: None,
            ranks_relay: true,
            alone: false,
            trees: None,
            height: None,
            heights: Heights::Hops,
            least_rate: None,
            steps: None,
            rho: 1.0,
            tree_rate: TreeRate::Quarter,
            starts: Starts::Any,
            seed: 1,
            pipeline: true,
            inside: None,
            between: None,
            tree_order: None,
            neighbor_order: NeighborOrder::Listed,
            route_by: RouteBy::Source,
        }
    }
}

/// The unit in which heights of trees are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Heights {
    /// Heights count hops.
    Hops,
    /// A link counts as its latency over the network's smallest above 0, rounded up.
    Latency,
}

/// The most that GOST gives a tree each time it grows one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum TreeRate {
    /// A tree gets at most a quarter of the network's widest cable.
    Quarter,
    /// A tree gets all of the smallest capacity that is left in the network.
    All,
}

/// The ranks from which GOST starts a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Starts {
    /// Where the random start fails, the other ranks are tried.
    Any,
    /// Where the random start fails, no more trees are grown.
    One,
}

/// The algorithm of a level of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Level {
    /// One ring.
    Ring,
    /// A ring in each direction.
    Multiring,
    /// A double binary tree.
    Dbtree,
    /// Recursive halving and doubling.
    HalvingDoubling,
    /// Every rank sends each part straight to the rank that sums it up.
    Direct,
    /// One tree for each rank.
    Multitree,
    /// Trees at the best rate, in an order.
    Forest,
    /// Packed trees.
    Packing,
    /// A tree into every rank; only between groups.
    Exchange,
}

impl Level {
    /// Returns the name of the planner.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Multiring => "multiring",
            Self::Dbtree => "dbtree",
            Self::HalvingDoubling => "halving-doubling",
            Self::Direct => "direct",
            Self::Multitree => "multitree",
            Self::Forest => "forest",
            Self::Packing => "packing",
            Self::Exchange => "exchange",
        }
    }
}

/// The order in which trees take turns within a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum TreeOrder {
    /// Trees take turns by root, as in Algorithm 1.
    Ascending,
    /// The tree whose farthest missing node is farthest goes first.
    RemainingHeight,
}

/// The order in which a node's links are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum NeighborOrder {
    /// Links are tried as the network lists them: on grids Y before X, so north, south, west, east.
    Listed,
    /// Links are tried in the opposite order.
    Reversed,
}

/// The tie-break between equally long routes to a home switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum RouteBy {
    /// The rank that sends decides.
    Source,
    /// The address decides: all operands of an address meet early, and wait for each other.
    Address,
}
