//! Error feedback: a rank keeps what rounding takes from its numbers, and adds it to those of the next operation.
//!
//! In an all-reduce each rank's partial sum of an element is sent once, and the sum of all is rounded once, by the rank
//! that has it. Whoever rounds keeps the difference, at the element's place in its residual; all other messages carry
//! numbers that were rounded before. So the results and the residuals of all ranks together are the sum of the inputs.
//! A partial sum is rounded where it is sent from, too: if a part of it is sent again, nothing more is taken from it.

use std::ops::Range;

use super::{Operation, Progress};
use crate::bail;
use crate::error::Result;
use crate::number::wire::{Wire, give_back};
use crate::number::{Number, Operator};
use crate::plan::Collective;
use crate::run::program::{Program, TaskId};

impl<'a> Operation<'a> {
    /// Begins `program` as [`Operation::new`] does, with error feedback: first the residual is added to the vector, and
    /// then what rounding takes from an element is kept in the residual.
    ///
    /// # Errors
    /// The errors of [`Operation::new`], or if it is no all-reduce that sums floats, or the residual is not as long as
    /// the vector.
    pub fn with_feedback(
        program: &'a Program,
        number: Number,
        operator: Operator,
        vector: &'a mut [u8],
        scratch: &'a mut Vec<u64>,
        residual: &'a mut [f32],
    ) -> Result<Self> {
        let progress = Progress::new(program, number, operator)?;
        let mut operation = Self::resume(program, vector, scratch, progress)?.feeding_back(residual)?;
        if let Some(residual) = &mut operation.residual {
            give_back(number, operation.vector, residual);
        }
        Ok(operation.begun())
    }

    /// Lets an operation that was resumed keep in its residual what rounding takes from now on.
    ///
    /// # Errors
    /// If it is no all-reduce that sums floats, or the residual is not as long as the vector.
    pub fn feeding_back(mut self, residual: &'a mut [f32]) -> Result<Self> {
        let (program, number) = (self.program, self.number());
        if program.collective != Collective::AllReduce {
            bail!("error feedback is for all-reduces, and this operation is of {}", program.collective);
        }
        if self.operator() != Operator::Sum {
            let operator = self.operator().name();
            bail!("error feedback makes up for what sums lose, and the operator is {operator}; drop the residual");
        }
        Wire::Int8.carrying(number)?;
        if residual.len() != self.vector.len() / number.bytes() {
            let elements = self.vector.len() / number.bytes();
            bail!("the residual has {} elements, but the vector has {elements}", residual.len());
        }
        self.residual = Some(residual);
        Ok(self)
    }
}

/// Returns the part of a residual for the elements in `place`, which is in a piece of `task`.
pub(super) fn part_of<'b>(
    residual: &'b mut Option<&mut [f32]>,
    program: &Program,
    task: TaskId,
    place: &Range<usize>,
) -> Option<&'b mut [f32]> {
    let residual = residual.as_mut()?;
    let element = |byte: usize| (byte - program.offset[task]) / program.element_bytes as usize;
    Some(&mut residual[element(place.start)..element(place.end)])
}
