//! The binding of what is computed from a plan's trees: their shape, and the pipelines of streams.

use pyo3::prelude::*;
use treefold::plan::pipeline::TreePipeline;
use treefold::plan::{Pace, Walkable};
use treefold::units::Bytes;

/// The heights and fanouts of a plan's trees, and how their transfers follow each other.
///
/// Example:
///     >>> shape = treefold.plan("ring:4", "dbtree").shape
///     >>> shape.max_height, shape.max_fanout
///     (2, 2)
#[pyclass(frozen, get_all, eq, module = "treefold")]
#[derive(PartialEq)]
pub struct TreeShape {
    /// The most edges between a root and a leaf.
    max_height: u32,
    /// The mean height of the trees.
    mean_height: f64,
    /// The most children of any node in any half.
    max_fanout: u32,
    /// The mean over all trees of the largest fanout in each.
    mean_max_fanout: f64,
    /// The pace of each phase: `steps`, `ordered`, `streamed` or `paced`.
    paces: Vec<&'static str>,
}

impl TreeShape {
    /// Describes the trees of a plan.
    pub fn new(plan: Walkable<'_>) -> Self {
        let shape = plan.shape();
        Self {
            paces: plan.draft().phases.iter().map(|phase| pace(phase.pace)).collect(),
            max_height: shape.max_height,
            mean_height: shape.mean_height,
            max_fanout: shape.max_fanout,
            mean_max_fanout: shape.mean_max_fanout,
        }
    }
}

/// Returns the word of the glossary for a pace.
fn pace(pace: Pace) -> &'static str {
    match pace {
        Pace::Step(_) => "steps",
        Pace::Ordered => "ordered",
        Pace::Paced => "paced",
        Pace::Stream | Pace::SubFlows | Pace::Pulled => "streamed",
    }
}

#[pymethods]
impl TreeShape {
    fn __repr__(&self) -> String {
        format!("TreeShape(max_height={}, max_fanout={})", self.max_height, self.max_fanout)
    }
}

/// The figures that decide how long one streamed tree takes.
///
/// If the vector has `size` bytes and the tree's part of it is cut into `n` chunks, the tree takes `latency_s + size *
/// path_s_per_byte / n + (n - 1) * (overhead_s + size * slowest_s_per_byte / n)` seconds.
///
/// Example:
///     >>> first = treefold.plan("ring:4", "dbtree").pipelines(1 << 20)[0]
///     >>> first.path_s_per_byte > first.slowest_s_per_byte
///     True
#[pyclass(frozen, get_all, eq, module = "treefold")]
#[derive(PartialEq)]
pub struct Pipeline {
    /// The latency and overheads, in seconds, of the path with the most; in an all-reduce, up and down the tree.
    latency_s: f64,
    /// The seconds per byte of the vector on all edges of a path together, of the path with the most.
    path_s_per_byte: f64,
    /// The seconds per byte of the vector on the slowest edge of the tree: those in which its link carries all trees
    /// that use it.
    slowest_s_per_byte: f64,
    /// The seconds of overheads on the busiest link, for one chunk of every tree.
    overhead_s: f64,
    /// The part of the vector that the tree carries, from 0 to 1.
    share: f64,
    /// The number of chunks into which the plan cuts the tree's part of the vector.
    chunks: u32,
}

impl Pipeline {
    /// Returns the figures of `tree`, whose chunks are those of a vector of `size`.
    pub fn new(tree: &TreePipeline, size: Bytes) -> Self {
        Self {
            latency_s: tree.latency.get(),
            path_s_per_byte: tree.path_per_byte,
            slowest_s_per_byte: tree.slowest_per_byte,
            overhead_s: tree.overhead.get(),
            share: tree.share,
            chunks: tree.chunks(size),
        }
    }
}

#[pymethods]
impl Pipeline {
    fn __repr__(&self) -> String {
        let latency = treefold::units::format_seconds(self.latency_s);
        format!("Pipeline(share={:.4}, chunks={}, latency={latency})", self.share, self.chunks)
    }
}
