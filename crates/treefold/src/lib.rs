//! treefold plans the fastest all-reduce for your network, proves that the plan is right, and predicts its time.
//!
//! A planner of [`planners`] makes a [`plan`] for a [`topology`], a simulator of [`sim`] predicts its time,
//! [`plan::check`] proves that it is right, and [`run`] runs it. A module may only use those before it in the order
//! `error, ids, units, random, options -> topology -> bound | plan -> planners | sim | run -> auto`, which
//! `tests/suite/layering.rs` enforces.
//!
//! ```
//! use std::sync::Arc;
//! use treefold::plan::check::check;
//! use treefold::planners::{self, Options};
//! use treefold::sim::flow;
//! use treefold::topology::from_spec;
//! use treefold::units::Bytes;
//!
//! let torus = Arc::new(from_spec("torus:4x4", None, None)?);
//! let plan = planners::plan("multitree", &torus, &Options::default())?;
//! check(&plan)?;
//! let trace = flow::simulate(&plan, Bytes(64 << 20), false, &mut |_| true)?;
//! assert!(trace.seconds < 0.01, "64 MiB take {} s", trace.seconds);
//! # Ok::<(), treefold::error::Error>(())
//! ```

pub mod auto;
pub mod bound;
pub mod error;
pub mod ids;
pub mod options;
pub mod plan;
pub mod planners;
pub mod random;
pub mod run;
pub mod sim;
pub mod topology;
pub mod units;
