//! The fingerprint of a plan, by which ranks notice that they run different plans.

use super::{Chunk, Direction, Draft, Pace, step_number};

impl Draft {
    /// Returns the FNV-1a hash of everything that decides what each rank sends to which other, and at what pace.
    pub fn fingerprint(&self) -> u64 {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut add = |value: u64| {
            for byte in value.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        add(u64::from(self.ranks()));
        add(self.units);
        add(self.collective as u64);
        self.blocks.iter().flat_map(|blocks| blocks.shares()).flatten().for_each(&mut add);
        for phase in &self.phases {
            let pace = match phase.pace {
                Pace::Step(_) => 0,
                Pace::Stream => 1,
                Pace::SubFlows => 2,
                Pace::Pulled => 3,
                Pace::Paced => 4,
                Pace::Ordered => 5,
            };
            [pace, u64::from(step_number(phase.steps))].into_iter().for_each(&mut add);
            for tree in self.trees_of(phase) {
                let chunk = match tree.chunk {
                    Chunk::Best => [0, 0],
                    Chunk::One => [0, 1],
                    Chunk::Count(count) => [1, u64::from(count)],
                    Chunk::Bytes(bytes) => [2, bytes],
                };
                [tree.span.start, tree.span.end, u64::from(tree.root)].into_iter().chain(chunk).for_each(&mut add);
                for direction in Direction::BOTH {
                    for edge in self.half(phase, tree, direction) {
                        add(u64::from(edge.parent) << 32 | u64::from(edge.child));
                        add(u64::from(step_number(edge.step)));
                    }
                }
            }
        }
        hash
    }
}
