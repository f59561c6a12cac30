//! treefold plans the fastest all-reduce for your network, proves that the plan is right, and predicts its time.
//!
//! A planner of [`planners`] makes a [`plan`] for a [`topology`], a simulator of [`sim`] predicts its time,
//! [`plan::check`] proves that it is right, and [`run`] runs it. A module may only use those before it in the order
//! `error, ids, units, search, random, linear, number, options -> topology -> memory -> bound | plan -> planners |
//! sim | run -> auto`; `tests/suite/layering.rs` enforces it.
//!
//! ```
//! use std::sync::Arc;
//! use treefold::bound::bounds;
//! use treefold::plan::check::check;
//! use treefold::planners::{self, Options};
//! use treefold::sim::{Watch, flow};
//! use treefold::topology::from_spec;
//! use treefold::units::parse_bytes;
//!
//! let torus = Arc::new(from_spec("torus:4x4", None, None)?);
//! let size = parse_bytes("64MiB")?;
//! let plan = planners::plan("multitree", &torus, &Options { size, ..Options::default() })?;
//! assert_eq!(plan.trees.len(), 16, "each rank is the root of a tree");
//! check(&plan)?;
//! let trace = flow::simulate(&plan, size, Watch::NOTHING)?;
//! let fraction = bounds(&torus).seconds(size) / trace.seconds;
//! assert!((0.7..=1.0).contains(&fraction), "the plan reaches {fraction} of what any plan could");
//! # Ok::<(), treefold::error::Error>(())
//! ```

pub mod auto;
pub mod blocks;
pub mod bound;
pub mod error;
pub mod ids;
mod linear;
mod memory;
pub mod number;
pub mod options;
pub mod plan;
pub mod planners;
// Tests draw networks with it.
#[doc(hidden)]
pub mod random;
pub mod run;
mod search;
pub mod sim;
pub mod topology;
pub mod units;
