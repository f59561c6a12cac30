//! The transfers of a phase. In phases with steps, parts with the same lane, step and buffers travel together.

use super::parts::Parts;
use crate::plan::messages::order_by_step;
use crate::plan::{Phase, Plan};

/// Groups of parts that travel together, in the order of the transfers.
pub(super) struct Groups {
    /// The parts, group by group: group `g` is `order[first[g]..first[g + 1]]`.
    order: Vec<u32>,
    first: Vec<u32>,
    /// The group of each part.
    pub transfer_of: Vec<u32>,
}

impl Groups {
    pub fn new(parts: &Parts, plan: &Plan, phase: &Phase) -> Self {
        let count = parts.edge.len() as u32;
        let mut groups = Self { order: (0..count).collect(), first: vec![0], transfer_of: vec![0; count as usize] };
        if phase.pace.is_stream() {
            groups.first = (0..=count).collect();
            groups.transfer_of = (0..count).collect();
            return groups;
        }
        groups.order = order_by_step(parts.edge.iter().map(|edge| edge.step), phase.steps);
        let key = |part: u32| {
            let i = part as usize;
            (parts.edge[i].step, parts.edge[i].lane, parts.source[i], parts.target[i], parts.direction[i] as u8)
        };
        let step_of = |part: u32| parts.edge[part as usize].step;
        let mut last_use = vec![None; 2 * plan.lanes.len()];
        for step in groups.order.chunk_by_mut(|&a, &b| step_of(a) == step_of(b)) {
            // Most steps use every lane once, and then there is nothing to group.
            let number = step_of(step[0]);
            let mut lanes = step.iter().map(|&part| parts.edge[part as usize].lane.index());
            if lanes.any(|lane| std::mem::replace(&mut last_use[lane], number) == number) {
                step.sort_by_key(|&part| key(part));
            }
        }
        for group in groups.order.chunk_by(|&a, &b| key(a) == key(b)) {
            let number = groups.first.len() as u32 - 1;
            group.iter().for_each(|&part| groups.transfer_of[part as usize] = number);
            groups.first.push(groups.first[number as usize] + group.len() as u32);
        }
        groups
    }

    pub fn of(&self, group: u32) -> &[u32] {
        &self.order[self.first[group as usize] as usize..self.first[group as usize + 1] as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.first.len() as u32 - 1).map(|group| self.of(group))
    }
}
