//! The first part of the proof: whatever a draft refers to exists, so that the other parts can walk it.

use std::ops::Range;

use crate::bail;
use crate::error::{Error, Result};
use crate::plan::{Draft, Half, MAX_STEPS, Phase, step_number};
use crate::topology::NodeId;

/// Checks that phases list all trees, one after the other, and that edges, lanes and roots exist.
pub(super) fn check_references(draft: &Draft) -> Result<()> {
    check_lists(draft)?;
    let nodes = draft.topology.nodes().len();
    let is_node = |node: NodeId| node.index() < nodes;
    for (number, tree) in draft.trees.iter().enumerate() {
        let at = |error: Error| error.at(format!("tree {number}"));
        if !is_node(tree.root) {
            return Err(at(Error::new(format!("its root {} is none of the {nodes} nodes", tree.root))));
        }
        check_half(&tree.up, draft.edges.lane.len())
            .and_then(|()| check_half(&tree.down, draft.edges.lane.len()))
            .map_err(at)?;
    }
    for (number, phase) in (1..).zip(&draft.phases).filter(|(_, phase)| !phase.pace.is_stream()) {
        check_steps(draft, phase).map_err(|error| error.at(format!("phase {number}")))?;
    }
    for lane in draft.lanes.ids() {
        let (source, target) = draft.lanes.ends(lane);
        let links = draft.topology.links().len();
        if !is_node(source) || !is_node(target) || draft.lanes.links(lane).iter().any(|link| link.index() >= links) {
            bail!("lane {lane} refers to a node or a link that {} does not have", draft.topology.name());
        }
    }
    Ok(())
}

fn check_lists(draft: &Draft) -> Result<()> {
    let (trees, edges) = (draft.trees.len(), &draft.edges);
    let mut next = 0;
    for (number, phase) in draft.phases.iter().enumerate() {
        let Range { start, end } = phase.trees;
        if start != next || end < start || end > trees {
            bail!("phase {number} lists trees {start}..{end}, but it has to begin at tree {next} of {trees}");
        }
        next = end;
    }
    if next != trees {
        bail!("tree {next} is in no phase");
    }
    if edges.lane.len() != edges.step.len() {
        bail!("the plan has {} lanes of edges but {} steps; each edge needs both", edges.lane.len(), edges.step.len());
    }
    match edges.lane.iter().find(|lane| lane.index() >= draft.lanes.len()) {
        Some(lane) => bail!("an edge has lane {lane}, but the plan has {} lanes", draft.lanes.len()),
        None => Ok(()),
    }
}

fn check_half(half: &Half, edges: usize) -> Result<()> {
    match half {
        Half::Own(range) if range.start > range.end || range.end > edges => {
            bail!("it has the edges {}..{}, but the plan has {edges}", range.start, range.end)
        }
        Half::Own(_) | Half::None | Half::Mirror => Ok(()),
    }
}

/// Checks that a phase has no edge behind its last step, from which the steps of mirrored edges are counted back.
fn check_steps(draft: &Draft, phase: &Phase) -> Result<()> {
    let last = step_number(phase.steps);
    if last > MAX_STEPS {
        bail!("it has {last} steps, but treefold handles {MAX_STEPS}");
    }
    for number in phase.trees.clone() {
        for half in [&draft.trees[number].up, &draft.trees[number].down] {
            let Half::Own(edges) = half else { continue };
            if let Some(step) = draft.edges.step[edges.clone()].iter().flatten().find(|step| step.get() > last) {
                bail!("tree {number} has an edge in step {step}, but the phase has {last} steps");
            }
        }
    }
    Ok(())
}
