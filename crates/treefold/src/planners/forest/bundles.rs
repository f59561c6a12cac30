//! Bundles: equal links from one node to another, which act as one wide link.
//!
//! A tree enters a rank over one link. Where two are parallel, some numbers of trees leave a part of one of them idle,
//! and whoever waits for a message waits as long as one link takes for it. So forests are grown on the network in which
//! each bundle is one wide link, too, and each of their trees is cut into *strands*. There are as many strands as the
//! least common multiple of the sizes of all bundles. Strand k takes the k-th link of each bundle, in turn, and carries
//! an equal part of what the tree does. Then each link is as busy as the wide one.
//!
//! A root alone is often better off with trees that take parallel links for themselves, so those are kept.
//!
//! Cost: a second search, on a network with fewer links, and as many forms of plans to time again.

use std::collections::HashMap;

use super::grown::Grown;
use super::{lcm, mirrored};
use crate::planners::spanning::Route;
use crate::topology::{Link, LinkId, Shape, Topology};
use crate::units::Bandwidth;

/// The most strands of a tree, each of which has messages of its own.
const MOST_STRANDS: u32 = 4;

/// A network whose bundles are one link each.
pub(super) struct Bundles {
    /// The network with a wide link for each bundle.
    pub merged: Topology,
    /// The links of each bundle, by the link of the merged network.
    links: Vec<Vec<LinkId>>,
    strands: u32,
}

impl Bundles {
    /// Returns the bundles of a network; `None` if no links are parallel and equal, or trees would have many strands.
    pub fn of(topology: &Topology) -> Option<Self> {
        let links = bundles(topology);
        let strands = links.iter().map(|bundle| bundle.len() as u32).fold(1, lcm);
        (2..=MOST_STRANDS).contains(&strands).then(|| {
            let wide = |bundle: &Vec<LinkId>| wide(topology.link(bundle[0]), bundle.len());
            Self { merged: topology.relinked(links.iter().map(wide).collect(), Shape::General), links, strands }
        })
    }

    /// Returns a forest of the merged network as strands on the network itself, whose directions are alike or not.
    pub fn stranded(&self, grown: &Grown, is_alike: bool) -> Grown {
        // Both directions of wide links may be alike where those of their links are not.
        let up = match &grown.up {
            None if !is_alike => Some(grown.down.iter().map(|routes| self.mirrored(routes)).collect::<Vec<_>>()),
            up => up.clone(),
        };
        Grown {
            trees: grown.trees * self.strands,
            roots: repeated(&grown.roots, self.strands),
            units: repeated(&grown.units, self.strands),
            block: grown.block * self.strands,
            down: self.strands_of(&grown.down),
            up: up.map(|up| self.strands_of(&up)),
            reached: grown.reached,
        }
    }

    fn mirrored(&self, routes: &[Route]) -> Vec<Route> {
        routes.iter().map(|route| mirrored(&self.merged, route)).collect()
    }

    /// Returns the strands of halves of trees, those of a tree together.
    fn strands_of(&self, halves: &[Vec<Route>]) -> Vec<Vec<Route>> {
        let strand = |routes: &[Route], number: u32| -> Vec<Route> {
            let link = |wide: &LinkId| {
                let bundle = &self.links[wide.index()];
                bundle[number as usize % bundle.len()]
            };
            routes.iter().map(|route| route.iter().map(link).collect()).collect()
        };
        halves.iter().flat_map(|routes| (0..self.strands).map(move |number| strand(routes, number))).collect()
    }
}

/// Returns the links of each bundle, in the order of their first ones.
fn bundles(topology: &Topology) -> Vec<Vec<LinkId>> {
    let mut places = HashMap::new();
    let mut bundles: Vec<Vec<LinkId>> = Vec::new();
    for (id, link) in topology.link_ids().zip(topology.links()) {
        let bandwidth = link.bandwidth.bytes_per_second().to_bits();
        let place =
            *places.entry((link.source, link.target, bandwidth, link.latency, link.overhead)).or_insert_with(|| {
                bundles.push(Vec::new());
                bundles.len() - 1
            });
        bundles[place].push(id);
    }
    bundles
}

/// Returns the values with each so many times, one after the other.
fn repeated<T: Copy>(values: &[T], times: u32) -> Vec<T> {
    values.iter().flat_map(|&value| std::iter::repeat_n(value, times as usize)).collect()
}

/// Returns a link as wide as so many that are like it.
fn wide(link: &Link, count: usize) -> Link {
    Link { bandwidth: Bandwidth::known(link.bandwidth.bytes_per_second() * count as f64), ..link.clone() }
}
