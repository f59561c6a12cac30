//! The tests of the core, one crate: a binary links in the time that twenty would take to start linking.
//!
//! Each module is a subject; `common` has what several of them need.

mod common;

mod algorithm1;
mod broken;
mod broken_collectives;
mod broken_schedules;
mod bundles;
mod causes;
mod chrome;
mod claims;
mod collective_bounds;
mod conduits;
mod double_tree;
mod equal_trees;
mod exchange;

mod fabric;
mod fabric_design;
mod fabric_faults;
mod fabric_reduces;
mod flow;
mod flow_random;
mod forest;
mod generators;
mod golden;
mod gost;
mod heat;
mod layering;
mod links;
mod nccl;
mod packet;
mod packet_oracle;
mod pairwise;
mod parts;
mod properties;
mod readers;
mod relabelled;
mod rivals;
mod run;
mod run_feedback;
mod run_wire;
mod shared;
mod steps;
mod together;
mod topologies;
mod unusual_plans;
mod wire;
