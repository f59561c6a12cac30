//! Dragonflies (Kim et al., ISCA 2008): groups of routers that are all joined, and global links between all groups.
//!
//! Every two groups are joined by equally many global links, as many as the routers' ports suffice for; ports that are
//! left over stay free. The arrangement is the palm tree (Camarero et al., TACO 2014): with n groups, the global ports
//! of a group, router by router, lead to the groups 1, 2, ... n - 1 further on, and then once more around.

use super::builder::Builder;
use super::spec::{Defaults, Spec};
use super::{Shape, Topology};
use crate::error::Result;

/// The keys of a dragonfly: groups, routers of a group, and hosts and global ports of a router.
pub(super) const KEYS: [&str; 4] = ["groups", "routers", "hosts", "global"];

/// The sizes of a dragonfly; in the paper's letters `groups` is g, `routers` a, `hosts` p and `global` h.
struct Dragonfly {
    groups: u32,
    routers: u32,
    hosts: u32,
    /// The global links of a group.
    global: u32,
}

/// Builds `dragonfly:groups=9,routers=4,hosts=2,global=2`. By default it is balanced and as large as can be: twice as
/// many routers in a group as global ports of a router, as many hosts as these, and a link between every two groups.
pub(super) fn dragonfly(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let global = spec.count("global", 2)?;
    let routers = spec.count("routers", global.saturating_mul(2))?;
    let hosts = spec.count("hosts", global)?;
    let most = (u64::from(routers) * u64::from(global)).saturating_add(1);
    let groups = spec.count("groups", u32::try_from(most).unwrap_or(u32::MAX))?;
    if u64::from(groups) > most {
        return Err(spec.misread(format!(
            "{groups} groups are more than {most}, as {routers} routers with {global} global links each reach {} \
             other groups; take fewer groups, or more routers or global links",
            most - 1
        )));
    }
    check_size(spec, [groups, routers, hosts], most - 1)?;
    let global = if groups == 1 { 0 } else { (most as u32 - 1) / (groups - 1) * (groups - 1) };
    Dragonfly { groups, routers, hosts, global }.build(defaults).finish(spec, Shape::General)
}

fn check_size(spec: &Spec, [groups, routers, hosts]: [u32; 3], global: u64) -> Result<()> {
    let [groups, routers, hosts] = [groups, routers, hosts].map(u64::from);
    let nodes = groups.saturating_mul(routers).saturating_mul(hosts + 1);
    let of_group = (routers * (routers - 1)).saturating_add(routers.saturating_mul(2 * hosts)).saturating_add(global);
    spec.check_size(nodes, groups.saturating_mul(of_group))
}

impl Dragonfly {
    fn build<'a>(&self, defaults: &'a Defaults) -> Builder<'a> {
        let routers = self.groups * self.routers;
        let mut network = Builder::new(routers * self.hosts, defaults);
        let first = network.switches(routers);
        for host in 0..routers * self.hosts {
            network.connect(host, first + host / self.hosts);
        }
        for group in 0..self.groups {
            let start = first + group * self.routers;
            for (a, b) in (0..self.routers).flat_map(|b| (0..b).map(move |a| (a, b))) {
                network.connect(start + a, start + b);
            }
        }
        self.join_groups(&mut network, first);
        network
    }

    /// Adds the global links. Of those around the groups, one `distance` further on ends at the port that leads
    /// as far as is left to come back.
    fn join_groups(&self, network: &mut Builder, first: u32) {
        for group in 0..self.groups {
            for port in 0..self.global {
                let (around, distance) = (port / (self.groups - 1), port % (self.groups - 1) + 1);
                let other = (group + distance) % self.groups;
                let back = around * (self.groups - 1) + self.groups - distance - 1;
                if group < other {
                    let router = |group, port| first + group * self.routers + self.router(port);
                    network.connect(router(group, port), router(other, back));
                }
            }
        }
    }

    /// Returns the router that has a global port: ports are spread evenly, in order.
    fn router(&self, port: u32) -> u32 {
        (u64::from(port) * u64::from(self.routers) / u64::from(self.global)) as u32
    }
}
