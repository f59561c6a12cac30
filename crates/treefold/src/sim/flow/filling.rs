//! One round of progressive filling: the lanes and links of a component, and what each link has left to share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::time::Instant;
use crate::topology::LinkId;

/// What a link has left to share.
#[derive(Clone, Copy, Default)]
pub(super) struct Left {
    pub capacity: f64,
    /// Messages that have no rate yet.
    pub messages: u32,
}

/// Room for progressive filling, kept between uses.
pub(super) struct Filling {
    pub lanes: Vec<u32>,
    pub links: Vec<LinkId>,
    /// Round in which a lane or link was last found.
    lane_round: Vec<u32>,
    link_round: Vec<u32>,
    round: u32,
    /// By link, for those of the component.
    pub left: Vec<Left>,
    pub rate: Vec<f64>,
    pub heap: BinaryHeap<Reverse<(Instant, Settler)>>,
}

/// What gives lanes their rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Settler {
    /// A lane's own slowest link.
    Lane(u32),
    /// A link that binds.
    Link(LinkId),
}

impl Filling {
    /// Makes room for that many lanes and links.
    pub fn new(lanes: usize, links: usize) -> Self {
        Self {
            lanes: Vec::new(),
            links: Vec::new(),
            lane_round: vec![0; lanes],
            link_round: vec![0; links],
            round: 0,
            left: vec![Left::default(); links],
            rate: vec![0.0; lanes],
            heap: BinaryHeap::new(),
        }
    }

    /// Begins a round with an empty component.
    pub fn begin(&mut self) {
        self.round += 1;
        self.lanes.clear();
        self.links.clear();
    }

    /// Makes room for one more lane.
    pub fn add_lane(&mut self) {
        self.lane_round.push(0);
        self.rate.push(0.0);
    }

    /// Adds a link to the component.
    pub fn find_link(&mut self, link: LinkId) {
        if std::mem::replace(&mut self.link_round[link], self.round) != self.round {
            self.links.push(link);
        }
    }

    /// Adds a lane to the component.
    pub fn find_lane(&mut self, lane: u32) {
        if std::mem::replace(&mut self.lane_round[lane as usize], self.round) != self.round {
            self.lanes.push(lane);
        }
    }

    /// Fills the heap with the shares of all lanes and links of the component.
    pub fn collect_shares(&mut self, own_share: impl Fn(u32) -> f64) {
        let mut heap = std::mem::take(&mut self.heap).into_vec();
        heap.clear();
        heap.extend(self.lanes.iter().map(|&lane| Reverse((Instant(own_share(lane)), Settler::Lane(lane)))));
        heap.extend(self.links.iter().filter_map(|&link| Some(Reverse((self.share(link)?, Settler::Link(link))))));
        self.heap = heap.into();
    }

    /// Returns what `link` can give each message that has no rate yet; `None` when all have one.
    pub fn share(&self, link: LinkId) -> Option<Instant> {
        let Left { capacity, messages } = self.left[link];
        (messages > 0).then(|| Instant(capacity / f64::from(messages)))
    }

    /// Takes the rate of `messages` off `link`; links outside of the component have nothing to lose.
    pub fn use_up(&mut self, link: LinkId, rate: f64, messages: u32) {
        if self.link_round[link] == self.round {
            let left = &mut self.left[link];
            left.capacity -= rate * f64::from(messages);
            left.messages -= messages;
        }
    }
}
