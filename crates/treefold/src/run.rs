//! Running a plan: each rank does its part of the schedule on its own vector, over a transport.
//!
//! A [`program`] is a rank's part of a lowered schedule. An [`operation`] is that program at work on one vector: it
//! decides what to send next to each peer, and uses the messages that arrive. A transport moves the bytes: [`memory`]
//! between the threads of one process, [`tcp`] between processes, and Python drives the same operation over MPI or
//! PyTorch. A rank waits only for the data that it needs, so several trees and many chunks are in flight at once,
//! without a barrier. A [`recording`] keeps when messages left and came.
//!
//! The order of sends decides the speed: each neighbour is sent next what belongs to the tree that has progressed
//! least, so that all trees end together, as their shares want it.

pub mod memory;
pub mod message;
pub mod operation;
pub mod program;
pub mod recording;
pub mod tcp;
