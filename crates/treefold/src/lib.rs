//! treefold: give it your network; get the fastest all-reduce for it, proof that it is right, and a
//! prediction of its time.
//!
//! Three values, four verbs: a [`topology`] is planned into a [`plan`] by one of the [`planners`], a
//! simulator of [`sim`] turns a plan into times, and [`plan::check`] proves a plan right. Modules may
//! only use the ones before them in the order
//! `error, ids, units, random, options -> topology -> bound | plan -> planners | sim | run -> auto`
//! (`tests/layering.rs` enforces it).

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
