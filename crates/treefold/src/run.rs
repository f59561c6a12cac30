//! Running a plan for real: each rank does its part of the schedule on its own vector, over a transport.
//!
//! A [`program`] is a rank's part of a lowered schedule; an [`operation`] is that program at work on one vector: it
//! says what to send next to whom, and takes in what arrives. A transport moves the bytes: [`memory`] between the
//! threads of one process, [`tcp`] between processes, and Python drives the same operation over MPI or PyTorch. Nobody
//! waits for anybody but for the data he needs: several trees and many chunks are under way at once, without a barrier.
//!
//! What decides the speed is the order of sends: to each neighbour goes next what belongs to the tree that has come
//! least far, so that all trees end together, as their shares want it.

pub mod memory;
pub mod number;
pub mod operation;
pub mod program;
pub mod tcp;
