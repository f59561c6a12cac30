//! One round of progressive filling: the queues and links of a component, and what each link has left to share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::quantities::Rate;
use crate::ids::ids;
use crate::topology::LinkId;

ids! {
    /// A queue of messages: those of a lane have the lane's index, those of paced edges follow.
    QueueId;
}

/// What a link has left to share.
#[derive(Clone, Copy, Default)]
pub(super) struct Left {
    pub capacity: Rate,
    /// Messages that have no rate yet.
    pub messages: u32,
}

/// Room for progressive filling, kept between uses.
pub(super) struct Filling {
    pub queues: Vec<QueueId>,
    pub links: Vec<LinkId>,
    /// Round in which a queue or link was last found.
    queue_round: Vec<u32>,
    link_round: Vec<u32>,
    round: u32,
    /// What each link of the component has left.
    pub left: Vec<Left>,
    pub rate: Vec<Rate>,
    pub heap: BinaryHeap<Reverse<(Rate, Settler)>>,
}

/// What gives queues their rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Settler {
    /// A queue's own slowest link.
    Queue(QueueId),
    /// A link that binds.
    Link(LinkId),
}

impl Filling {
    /// Makes room for that many queues and links.
    pub fn new(queues: usize, links: usize) -> Self {
        Self {
            queues: Vec::new(),
            links: Vec::new(),
            queue_round: vec![0; queues],
            link_round: vec![0; links],
            round: 0,
            left: vec![Left::default(); links],
            rate: vec![Rate::ZERO; queues],
            heap: BinaryHeap::new(),
        }
    }

    /// Begins a round with an empty component.
    pub fn begin(&mut self) {
        self.round += 1;
        self.queues.clear();
        self.links.clear();
    }

    /// Makes room for one more queue.
    pub fn add_queue(&mut self) {
        self.queue_round.push(0);
        self.rate.push(Rate::ZERO);
    }

    /// Adds a link to the component.
    pub fn find_link(&mut self, link: LinkId) {
        if std::mem::replace(&mut self.link_round[link], self.round) != self.round {
            self.links.push(link);
        }
    }

    /// Adds a queue to the component.
    pub fn find_queue(&mut self, queue: QueueId) {
        if std::mem::replace(&mut self.queue_round[queue], self.round) != self.round {
            self.queues.push(queue);
        }
    }

    /// Fills the heap with the shares of all queues and links of the component.
    pub fn collect_shares(&mut self, own_share: impl Fn(QueueId) -> Rate) {
        let mut heap = std::mem::take(&mut self.heap).into_vec();
        heap.clear();
        heap.extend(self.queues.iter().map(|&queue| Reverse((own_share(queue), Settler::Queue(queue)))));
        heap.extend(self.links.iter().filter_map(|&link| Some(Reverse((self.share(link)?, Settler::Link(link))))));
        self.heap = heap.into();
    }

    /// Returns what `link` can give each message that has no rate yet; `None` when all have one.
    pub fn share(&self, link: LinkId) -> Option<Rate> {
        let Left { capacity, messages } = self.left[link];
        (messages > 0).then(|| capacity / messages)
    }

    /// Takes the rate of `messages` off `link`; links outside of the component have nothing to lose.
    pub fn use_up(&mut self, link: LinkId, rate: Rate, messages: u32) {
        if self.link_round[link] == self.round {
            let left = &mut self.left[link];
            left.capacity -= rate * f64::from(messages);
            left.messages -= messages;
        }
    }
}
