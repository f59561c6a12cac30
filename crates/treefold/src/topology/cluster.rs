//! Clusters of servers with rails: each server has a switch between its GPUs, and network cards that hang on rails.

use super::builder::Builder;
use super::spec::{Defaults, Spec};
use super::{Shape, Topology};
use crate::bail;
use crate::error::Result;
use crate::units::{Bandwidth, Time, parse_bandwidth, parse_time};

/// The keys of a cluster: how many servers, and GPUs and network cards in each; the rails of a pod, the pods, the spine
/// switches, and how many cards share a rail's link up; bandwidths and latencies inside servers and between them.
pub(super) const KEYS: [&str; 11] =
    ["nodes", "gpus", "cards", "rails", "pods", "spines", "taper", "nvlink", "nvlink_latency", "nic", "nic_latency"];

/// The sizes of a cluster.
struct Cluster {
    nodes: u32,
    gpus: u32,
    /// The network cards of a server.
    cards: u32,
    /// The rail switches of a pod.
    rails: u32,
    pods: u32,
    spines: u32,
    /// The parallel cables from a rail switch to a spine switch.
    cables: u32,
}

/// Builds `cluster:nodes=4,gpus=8,rails=8`: each server has a switch between its GPUs (450 GB/s each, NVLink 4) and a
/// network card of 400 Gbit/s for every rail (1 us a cable). If there are fewer cards than GPUs, neighbouring GPUs
/// share a card; by default there is one a GPU, and 8 at most.
pub(super) fn cluster(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let gpus = spec.count("gpus", 8)?;
    let cards = if spec.has("rails") { spec.count("rails", 1)? } else { gpus.min(8) };
    let cards = spec.count("cards", cards)?;
    build(spec, defaults, [gpus, cards, spec.count("rails", cards)?])
}

/// Builds `nvl72:nodes=2`: a cluster whose servers are racks of 72 GPUs in one NVLink domain. Each has a network card,
/// and those of the four GPUs of a tray are on four rails.
pub(super) fn nvl72(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let gpus = spec.count("gpus", 72)?;
    let cards = spec.count("cards", gpus)?;
    build(spec, defaults, [gpus, cards, spec.count("rails", cards.min(4))?])
}

fn build(spec: &Spec, defaults: &Defaults, sizes: [u32; 3]) -> Result<Topology> {
    let cluster = Cluster::read(spec, sizes)?;
    refuse_fixed(spec, defaults)?;
    let inside = Defaults {
        bandwidth: spec.quantity("nvlink", defaults.bandwidth, parse_bandwidth)?,
        latency: spec.quantity("nvlink_latency", defaults.latency, parse_time)?,
        ..defaults.clone()
    };
    let between = Defaults {
        bandwidth: spec.quantity("nic", Bandwidth::known(50e9), parse_bandwidth)?,
        latency: spec.quantity("nic_latency", Time::from_picoseconds(1_000_000), parse_time)?,
        ..defaults.clone()
    };
    cluster.build(&inside, &between).finish(spec, Shape::General)
}

/// Refuses one bandwidth or latency for all links.
fn refuse_fixed(spec: &Spec, defaults: &Defaults) -> Result<()> {
    for (is_fixed, what, keys) in [
        (defaults.fixed_bandwidth, "bandwidth", "nvlink=450GB/s,nic=400Gbit/s"),
        (defaults.fixed_latency, "latency", "nvlink_latency=150ns,nic_latency=1us"),
    ] {
        if is_fixed {
            bail!(
                "topology '{}': its links inside and between servers differ in {what}, so one for all is refused; \
                 drop it and write for example {}:nodes=4,{keys}",
                spec.text,
                spec.name()
            );
        }
    }
    Ok(())
}

/// Returns how many of a whole each part gets, or an error that says what does not come out even.
fn share(spec: &Spec, whole: u32, parts: u32, what: impl Fn() -> String) -> Result<u32> {
    if whole.is_multiple_of(parts) { Ok(whole / parts) } else { Err(spec.misread(what())) }
}

impl Cluster {
    fn read(spec: &Spec, [gpus, cards, rails]: [u32; 3]) -> Result<Self> {
        let (nodes, pods) = (spec.count("nodes", 4)?, spec.count("pods", 1)?);
        share(spec, gpus, cards, || {
            let what = if spec.has("cards") { "cards" } else { "rails" };
            format!("{gpus} gpus cannot share {cards} {what} evenly; take a number that divides {gpus}")
        })?;
        let of_rail = share(spec, cards, rails, || {
            format!("{cards} cards cannot be on {rails} rails evenly; take a number of rails that divides {cards}")
        })?;
        let of_pod = share(spec, nodes, pods, || {
            format!("{nodes} nodes cannot be in {pods} pods evenly; take a number of pods that divides {nodes}")
        })?;
        let (total, spines) = (u64::from(nodes) * u64::from(gpus), spec.value("spines", 0u32)?);
        spec.check_size(total.saturating_add(u64::from(spines)), total.saturating_mul(2))?;
        let mut cluster = Self { nodes, gpus, cards, rails, pods, spines, cables: 0 };
        cluster.cables = cluster.cables_to_spine(spec, of_rail * of_pod)?;
        spec.check_size(cluster.all_nodes(), 2 * cluster.all_cables())?;
        Ok(cluster)
    }

    /// Returns how many parallel cables join each rail switch, which has `cards` of them down, to each spine switch.
    fn cables_to_spine(&self, spec: &Spec, cards: u32) -> Result<u32> {
        let (taper, spines) = (spec.count("taper", 1)?, self.spines);
        if spines == 0 {
            return match (self.pods, taper) {
                (1, 1) => Ok(0),
                (1, _) => Err(spec.misread(format!("taper={taper} needs spines above the rails; add spines=1"))),
                (pods, _) => Err(spec.misread(format!("{pods} pods need spines to join them; add spines=1"))),
            };
        }
        let all = share(spec, cards, taper, || {
            format!("a rail's {cards} cards cannot share links up by {taper}; take a taper that divides {cards}")
        })?;
        share(spec, all, spines, || {
            format!("a rail's {all} links up cannot go to {spines} spines evenly; take spines that divide {all}")
        })
    }

    /// Returns how many GPUs share a card.
    fn sharing(&self) -> u32 {
        self.gpus / self.cards
    }

    fn all_nodes(&self) -> u64 {
        let [nodes, gpus, cards, rails, pods] = self.numbers();
        let shared = if self.sharing() == 1 { 0 } else { cards };
        nodes * (gpus + 1 + shared) + pods * rails + u64::from(self.spines)
    }

    fn all_cables(&self) -> u64 {
        let [nodes, gpus, cards, rails, pods] = self.numbers();
        let shared = if self.sharing() == 1 { 0 } else { gpus };
        nodes * (gpus + shared + cards) + pods * rails * u64::from(self.spines) * u64::from(self.cables)
    }

    fn numbers(&self) -> [u64; 5] {
        [self.nodes, self.gpus, self.cards, self.rails, self.pods].map(u64::from)
    }

    fn build<'a>(&self, inside: &'a Defaults, between: &Defaults) -> Builder<'a> {
        let mut network = Builder::new(self.nodes * self.gpus, inside);
        let servers = network.switches(self.nodes);
        for gpu in 0..self.nodes * self.gpus {
            network.connect(gpu, servers + gpu / self.gpus);
        }
        let rails = network.switches(self.pods * self.rails);
        let spines = network.switches(self.spines);
        for server in 0..self.nodes {
            let pod = server / (self.nodes / self.pods);
            for card in 0..self.cards {
                let end = self.card(&mut network, server * self.gpus + card * self.sharing());
                network.connect_as(between, end, rails + pod * self.rails + card % self.rails);
            }
        }
        self.join_rails(&mut network, between, [rails, spines]);
        network
    }

    /// Returns the node of the card that GPUs from `first` on share: a GPU with a card of its own is one node with it.
    fn card(&self, network: &mut Builder, first: u32) -> u32 {
        if self.sharing() == 1 {
            return first;
        }
        let card = network.switches(1);
        (0..self.sharing()).for_each(|gpu| network.connect(first + gpu, card));
        card
    }

    fn join_rails(&self, network: &mut Builder, between: &Defaults, [rails, spines]: [u32; 2]) {
        for rail in rails..rails + self.pods * self.rails {
            for spine in spines..spines + self.spines {
                (0..self.cables).for_each(|_| network.connect_as(between, rail, spine));
            }
        }
    }
}
