//! The options of the planners. Each planner reads those that concern it, which `x-planners` lists.
//!
//! The planners that need a solver are in the Python package; their options are declared here, too.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::options;
use crate::units::{Bandwidth, Bytes};

/// The options that a caller may set for a planner, and the size of the vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Options {
    /// The size of the vector that the plan should be good for.
    #[serde(skip)]
    pub size: Bytes,
    /// How many trees a plan may have; MultiTree grows exactly so many.
    #[schemars(range(min = 1), extend(
        "x-limit" = true,
        "x-planners" = ["packing", "mtree", "blink", "multitree", "topoadopt", "psld", "plink"],
        "x-paper" = "MTree, section III-B",
    ))]
    pub trees: Option<u32>,
    /// How high a tree may be, in the unit that heights has.
    #[schemars(range(min = 1), extend(
        "x-limit" = true,
        "x-planners" = ["packing", "mtree"],
        "x-paper" = "MTree, section III-A",
    ))]
    pub height: Option<u32>,
    /// How heights count: hops, or multiples of the least link's latency (latency).
    #[schemars(extend("x-planners" = ["packing", "mtree"], "x-paper" = "MTree, section III-A"))]
    pub heights: Heights,
    /// How much each tree carries at least.
    #[schemars(extend(
        "x-limit" = true,
        "x-planners" = ["packing", "mtree"],
        "x-paper" = "MTree, section III-A",
    ))]
    pub least_rate: Option<Bandwidth>,
    /// The part of the total rate that lower trees must keep.
    #[schemars(range(max = 1.0), extend(
        "exclusiveMinimum" = 0.0,
        "x-planners" = ["mtree"],
        "x-paper" = "MTree, section III-A",
    ))]
    pub rho: f64,
    /// The seed of all that is drawn at random.
    #[schemars(extend("x-planners" = ["mtree", "topoadopt"]))]
    pub seed: u64,
    /// Whether streamed trees send their parts in chunks.
    #[schemars(extend("x-paper" = "MTree, section III-C"))]
    pub pipeline: bool,
    /// The order in which trees take turns within a step; by default the better one for the network.
    #[schemars(extend("x-planners" = ["multitree"], "x-paper" = "MultiTree, Algorithm 1"))]
    pub tree_order: Option<TreeOrder>,
    /// The order in which a node's links are tried.
    #[schemars(extend("x-planners" = ["multitree"], "x-paper" = "MultiTree, section III-C"))]
    pub neighbor_order: NeighborOrder,
    /// The tie-break between equally long routes to a home switch: by the source, or by the address.
    #[schemars(extend("x-planners" = ["innet-push"], "x-paper" = "in-network, section IV-C"))]
    pub route_by: RouteBy,
}

impl options::Options for Options {
    const WHAT: &'static str = "planner";
}

impl Default for Options {
    fn default() -> Self {
        Self {
            size: Bytes(64 << 20),
            trees: None,
            height: None,
            heights: Heights::Hops,
            least_rate: None,
            rho: 1.0,
            seed: 1,
            pipeline: true,
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
    /// Heights count multiples of the least link's latency, rounded up.
    Latency,
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
