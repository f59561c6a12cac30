//! The error when nothing moves any more and not everything has arrived.

use super::node::Node;
use super::router::Front;
use super::shared::Progress;
use super::workload::{MessageId, Workload};
use crate::error::Error;
use crate::topology::{NodeId, Topology};

/// Messages that are named at most.
const NAMED: usize = 4;

/// Reports who waits for whom: packets in routers first, else messages in tables.
pub fn report(topology: &Topology, workload: &Workload, progress: &Progress, nodes: &[Node]) -> Error {
    let name = |node: NodeId| topology.node(node).name.as_str();
    let describe = |id: MessageId| {
        let message = &workload.messages[id];
        format!(
            "{} -> {} of tree {} in step {}",
            name(message.source),
            name(message.target),
            message.tree,
            message.step
        )
    };
    let mut lines: Vec<String> = Vec::new();
    for (node, state) in topology.node_ids().zip(nodes) {
        for Front { message, output, has_channel } in state.router.fronts() {
            let wants = topology.outgoing(node).get(output.index());
            let place = wants.map_or("an interface".into(), |&link| topology.describe_link(link));
            let state = if has_channel { "a credit of" } else { "a channel of" };
            lines.push(format!("{} waits at {} for {state} {place}", describe(message), name(node)));
        }
    }
    if lines.is_empty() {
        let unsent = MessageId::first(workload.planned).filter(|&id| progress.waits[id] > 0);
        lines.extend(unsent.map(|id| format!("{} waits for {} receipts", describe(id), progress.waits[id])));
    }
    let missing = workload.planned - progress.received;
    let more = lines.len().saturating_sub(NAMED);
    lines.truncate(NAMED);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    Error::new(format!("deadlock: {missing} messages never arrive: {}{rest}", lines.join("; "))).misfit()
}
