//! Which virtual channels a message may use on each link of its route, so that no packets ever wait for each other in a
//! circle.
//!
//! Dally and Seitz, "Deadlock-free message routing in multiprocessor interconnection networks" (1987): there is no
//! deadlock if the graph of channels, with an edge from each to those that are used right after it, has no cycle.
//! Virtual channels are split into classes; every lane takes on each link the lowest that closes no cycle. On a ring
//! that is the dateline, wherever the first lane crosses it; on up-down routes one class is enough. Tori have two
//! always, as their routers do. Cost: a bounded search for every pair of links that follow each other.

use crate::topology::LinkId;

/// The virtual channels of one class on a link.
#[derive(Debug, Clone, Copy)]
pub struct LinkClass {
    pub link: LinkId,
    pub class: u32,
}

/// Virtual channels, and which follow which, free of cycles.
pub struct ChannelGraph {
    links: usize,
    /// Successors of channel `class * links + link`.
    after: Vec<Vec<u32>>,
    seen: Vec<u32>,
    search: u32,
}

impl ChannelGraph {
    /// Makes a graph in which no channel follows another yet.
    pub fn new(links: usize) -> Self {
        Self { links, after: vec![Vec::new(); links], seen: vec![0; links], search: 0 }
    }

    /// Chooses the class on each of a route's links, the lowest that closes no cycle, for packets that wait on the
    /// channels `before` it.
    pub fn follow(&mut self, before: &[LinkClass], links: &[LinkId]) -> Vec<u32> {
        let channels = before.iter().map(|&LinkClass { link, class }| self.channel(link, class));
        let mut before: Vec<u32> = channels.collect();
        let mut classes = Vec::with_capacity(links.len());
        for &link in links {
            let mut class = 0;
            while !before.iter().all(|&from| self.join(from, self.channel(link, class))) {
                class += 1;
                self.grow(class);
            }
            before = vec![self.channel(link, class)];
            classes.push(class);
        }
        classes
    }

    /// Returns the number of a class's channel on a link.
    fn channel(&self, link: LinkId, class: u32) -> u32 {
        class * self.links as u32 + link.0
    }

    /// Makes room for another class.
    fn grow(&mut self, class: u32) {
        let size = (class as usize + 1) * self.links;
        if self.after.len() < size {
            self.after.resize(size, Vec::new());
            self.seen.resize(size, 0);
        }
    }

    /// Records that `to` follows `from`, unless that closes a cycle.
    fn join(&mut self, from: u32, to: u32) -> bool {
        if self.after[from as usize].contains(&to) {
            return true;
        }
        if self.reaches(to, from) {
            return false;
        }
        self.after[from as usize].push(to);
        true
    }

    /// Says whether packets that use `from` may come to use `to`.
    fn reaches(&mut self, from: u32, to: u32) -> bool {
        self.search += 1;
        let mut open = vec![from];
        while let Some(channel) = open.pop() {
            if channel == to {
                return true;
            }
            if std::mem::replace(&mut self.seen[channel as usize], self.search) != self.search {
                open.extend_from_slice(&self.after[channel as usize]);
            }
        }
        false
    }
}
