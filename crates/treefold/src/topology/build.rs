//! Puts a network together: checks its parts, renumbers its nodes, and lists adjacent links.

use std::collections::{BTreeMap, HashMap};

use super::shared::SharedCapacities;
use super::{Link, LinkId, MAX_LINKS, MAX_NODES, Node, NodeId, Routes, Shape, Topology};
use crate::bail;
use crate::error::{Result, is_control};
use crate::units::Bandwidth;

/// Refuses a name that cannot be shown.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.trim().is_empty() {
        bail!("names must not be blank");
    }
    if let Some(control) = name.chars().find(|&character| is_control(character)) {
        bail!("names must not have control characters, got {}; remove it", control.escape_default());
    }
    Ok(())
}

/// Refuses nodes and links that no network can have.
pub(super) fn check_parts(nodes: &[Node], links: &[Link]) -> Result<()> {
    check_nodes(nodes)?;
    check_links(nodes, links)
}

/// Returns all accelerators, in listed order.
pub(super) fn accelerators(nodes: &[Node]) -> Vec<NodeId> {
    NodeId::first(nodes.len()).filter(|&node| !nodes[node].is_switch()).collect()
}

fn check_nodes(nodes: &[Node]) -> Result<()> {
    if nodes.len() > MAX_NODES {
        bail!("{} nodes are more than the {MAX_NODES} that treefold handles", nodes.len());
    }
    let mut entry_of = HashMap::new();
    for (i, node) in nodes.iter().enumerate() {
        check_name(&node.name).map_err(|error| error.at(format!("node '{}'", node.name)))?;
        if let Some(before) = entry_of.insert(node.name.as_str(), i) {
            bail!("node '{}' is listed twice (entries {before} and {i}); node names must differ", node.name);
        }
    }
    Ok(())
}

fn check_links(nodes: &[Node], links: &[Link]) -> Result<()> {
    if links.len() > MAX_LINKS {
        bail!("{} links are more than the {MAX_LINKS} that treefold handles", links.len());
    }
    for link in links {
        let (source, target) = (&nodes[link.source].name, &nodes[link.target].name);
        if link.source == link.target {
            bail!("link {source} -> {target}: starts and ends at the same node; remove it");
        }
        Bandwidth::new(link.bandwidth.bytes_per_second())
            .map_err(|error| error.at(format!("link {source} -> {target}")))?;
    }
    Ok(())
}

pub(super) fn check_ranks(nodes: &[Node], ranks: &[NodeId]) -> Result<()> {
    if ranks.is_empty() {
        bail!("no rank: a collective needs at least one accelerator");
    }
    let mut seen = vec![false; nodes.len()];
    for &rank in ranks {
        let node = &nodes[rank];
        if node.is_switch() {
            bail!("rank '{}' is a switch; ranks must be accelerators", node.name);
        }
        if std::mem::replace(&mut seen[rank], true) {
            bail!("rank '{}' is listed twice; list each rank once", node.name);
        }
    }
    Ok(())
}

/// Renumbers the nodes so that ranks come first, and lists the links of each.
pub(super) fn assemble(name: String, nodes: Vec<Node>, links: Vec<Link>, ranks: &[NodeId], shape: Shape) -> Topology {
    let mut new_id: Vec<Option<NodeId>> = vec![None; nodes.len()];
    let mut place: Vec<u32> = ranks.iter().map(|rank| rank.0).collect();
    for (new, &old) in ranks.iter().enumerate() {
        new_id[old] = Some(NodeId::new(new));
    }
    for is_switch in [false, true] {
        for old in (0..nodes.len()).filter(|&old| nodes[old].is_switch() == is_switch) {
            if new_id[old].is_none() {
                new_id[old] = Some(NodeId::new(place.len()));
                place.push(old as u32);
            }
        }
    }
    let new_id: Vec<NodeId> = new_id.into_iter().map(|id| id.expect("every node is a switch or not")).collect();
    let nodes: Vec<Node> = place.iter().map(|&old| nodes[old as usize].clone()).collect();
    let renumbered = |link: Link| Link { source: new_id[link.source], target: new_id[link.target], ..link };
    let links: Vec<Link> = links.into_iter().map(renumbered).collect();
    let (first_out, outgoing) = group_by(nodes.len(), &links, |link| link.source);
    let (first_in, incoming) = group_by(nodes.len(), &links, |link| link.target);
    let reverse = pair_up(&links);
    let routes = Routes::new(nodes.len());
    let ranks = ranks.len() as u32;
    let direct = links.iter().all(|link| link.source.0 < ranks && link.target.0 < ranks);
    Topology {
        name,
        nodes,
        links,
        ranks,
        ordered: false,
        tested: None,
        direct,
        shape,
        place,
        node_of_place: new_id,
        first_out,
        outgoing,
        first_in,
        incoming,
        reverse,
        routes,
        shared: SharedCapacities::default(),
    }
}

/// Groups the links by `key`, in listed order; returns where each group starts, and the groups one after the other.
fn group_by(rows: usize, links: &[Link], key: impl Fn(&Link) -> NodeId) -> (Vec<u32>, Vec<LinkId>) {
    let mut first = vec![0u32; rows + 1];
    for link in links {
        first[key(link).index() + 1] += 1;
    }
    for row in 0..rows {
        first[row + 1] += first[row];
    }
    let mut next = first.clone();
    let mut grouped = vec![LinkId(0); links.len()];
    for (id, link) in LinkId::first(links.len()).zip(links) {
        let slot = &mut next[key(link)];
        grouped[*slot as usize] = id;
        *slot += 1;
    }
    (first, grouped)
}

/// Pairs the k-th parallel link u -> v with the k-th v -> u.
fn pair_up(links: &[Link]) -> Vec<Option<LinkId>> {
    let mut between: BTreeMap<(NodeId, NodeId), Vec<LinkId>> = BTreeMap::new();
    for (id, link) in links.iter().enumerate() {
        between.entry((link.source, link.target)).or_default().push(LinkId::new(id));
    }
    let mut reverse = vec![None; links.len()];
    for (&(source, target), forward) in &between {
        let backward = between.get(&(target, source)).map_or(&[][..], Vec::as_slice);
        for (&there, &back) in forward.iter().zip(backward) {
            reverse[there] = Some(back);
        }
    }
    reverse
}
