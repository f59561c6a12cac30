//! The steps of streams in schedule tables.
//!
//! Streams get steps by modulo scheduling (Rau and Glaeser 1981): in a period, which is as long as the busiest rank
//! needs, each rank sends and receives at most one message a step in each half, and every chunk repeats the period. An
//! edge has a step of its own modulo the period, its colour; which one, an edge colouring decides (Koenig 1916).
//!
//! The double binary tree has the two colours of Sanders, Speck and Traeff (2009), and a new chunk every two steps, so
//! that a rank never sends or receives in both trees at once (MultiTree paper, section II and Fig. 4). As the paper's
//! authors simulate it, all chunks are reduced before any is gathered: a gather waits for a round trip to the root, and
//! tables that are executed in order would hold all later reductions behind it.
//!
//! Cost: linear in the transfers, and at most quadratic in the edges of the trees.

use std::collections::HashMap;

use crate::plan::schedule::{Op, Schedule, TransferId};
use crate::plan::{Pace, Plan};

/// Sets the steps of the transfers `ids` of a streamed phase of this pace, after step `before`.
pub(super) fn set_steps(
    plan: &Plan,
    pace: Pace,
    schedule: &Schedule,
    ids: impl Iterator<Item = TransferId> + Clone,
    before: u32,
    steps: &mut [u32],
) {
    if pace != Pace::SubFlows {
        return modulo_schedule(plan, pace, schedule, ids, before, steps);
    }
    let half = |gathers: bool| ids.clone().filter(move |&id| (schedule.op[id] == Op::Copy) == gathers);
    modulo_schedule(plan, pace, schedule, half(false), before, steps);
    let reduced = half(false).map(|id| steps[id]).max().unwrap_or(before);
    modulo_schedule(plan, pace, schedule, half(true), reduced, steps);
}

/// An edge of one half of a tree, whose chunks follow each other.
struct Edge {
    /// Whether partial sums go along it.
    reduces: bool,
    /// The nodes farther from the root and nearer to it, as numbers.
    child: usize,
    parent: usize,
}

/// Sets the steps of the transfers `ids`, after step `before`. The first chunk of each edge gets the earliest step of
/// the edge's colour that its dependencies allow, and each further chunk a step that is a period later.
fn modulo_schedule(
    plan: &Plan,
    pace: Pace,
    schedule: &Schedule,
    ids: impl Iterator<Item = TransferId> + Clone,
    before: u32,
    steps: &mut [u32],
) {
    let key = |id: TransferId| (schedule.tree[id], schedule.op[id] == Op::Reduce, schedule.ends(id));
    let mut number: HashMap<_, usize> = HashMap::new();
    let mut edges = Vec::new();
    for id in ids.clone().filter(|&id| schedule.lane[id].is_some()) {
        number.entry(key(id)).or_insert_with(|| {
            let (_, reduces, [source, target]) = key(id);
            let [child, parent] = if reduces { [source, target] } else { [target, source] }.map(|node| node.index());
            edges.push(Edge { reduces, child, parent });
            edges.len() - 1
        });
    }
    let (colours, period) = colours(plan, pace, &edges);
    let mut first: Vec<Option<u32>> = vec![None; edges.len()];
    for id in ids {
        let earlier = schedule.dependencies.row(id).iter().map(|&other| steps[other] + 1);
        let earliest = earlier.max().unwrap_or(0).max(before + 1);
        steps[id] = match number.get(&key(id)).filter(|_| schedule.lane[id].is_some()) {
            None => earliest - 1,
            Some(&edge) => {
                let chunks = schedule.chunk[id] * period;
                let colour = (earliest - before - 1) % period;
                let of_colour = earliest + (colours[edge] + period - colour) % period;
                let first = *first[edge].get_or_insert_with(|| of_colour.saturating_sub(chunks));
                (first + chunks).max(earliest)
            }
        };
    }
}

/// Returns the colour of each edge, and the number of colours.
fn colours(plan: &Plan, pace: Pace, edges: &[Edge]) -> (Vec<u32>, u32) {
    let nodes = plan.topology.nodes().len();
    if pace == Pace::SubFlows
        && let Some(colours) = two_colours(plan, edges, nodes)
    {
        return (colours, 2);
    }
    // Each node is a child and a parent in both halves, so it has four vertices.
    let vertices = |edge: &Edge| {
        let half = usize::from(edge.reduces);
        [4 * edge.child + half, 4 * edge.parent + 2 + half]
    };
    koenig(&edges.iter().map(vertices).collect::<Vec<_>>(), 4 * nodes)
}

/// Colours the edges of one half of two trees so that those of one colour share neither child nor parent: along the
/// paths on which edges meet, colours take turns. The root of the first tree, which is a leaf of the second, has the
/// first colour there; the root of the second tree has the second colour in the first. Two paths then reach all edges
/// if the number of ranks is even. `None` if more than two edges meet.
fn two_colours(plan: &Plan, edges: &[Edge], nodes: usize) -> Option<Vec<u32>> {
    let mut at: Vec<Vec<usize>> = vec![Vec::new(); 2 * nodes];
    for (number, edge) in edges.iter().enumerate() {
        at[edge.child].push(number);
        at[nodes + edge.parent].push(number);
    }
    if at.iter().any(|meeting| meeting.len() > 2) {
        return None;
    }
    let mut colours: Vec<Option<u32>> = vec![None; edges.len()];
    let roots = plan.trees.iter().map(|tree| tree.root.index()).zip([0, 1]);
    for (start, colour) in roots.chain((0..nodes).map(|node| (node, 0))) {
        for (&first, mut colour) in at[start].iter().zip([colour, 1 - colour]) {
            let (mut vertex, mut next) = (start, Some(first).filter(|&edge| colours[edge].is_none()));
            while let Some(edge) = next {
                colours[edge] = Some(colour);
                colour = 1 - colour;
                vertex = edges[edge].child + nodes + edges[edge].parent - vertex;
                next = at[vertex].iter().copied().find(|&edge| colours[edge].is_none());
            }
        }
    }
    colours.into_iter().collect()
}

/// Colours the edges of a bipartite graph so that edges of one colour share no vertex, with as few colours as the
/// busiest vertex has edges (Koenig 1916). If the first free colours of an edge's ends differ, they are swapped along
/// the path that is in the way. Returns the colour of each edge, and the number of colours.
fn koenig(edges: &[[usize; 2]], vertices: usize) -> (Vec<u32>, u32) {
    let mut degree = vec![0u32; vertices];
    edges.iter().flatten().for_each(|&vertex| degree[vertex] += 1);
    let colours = degree.into_iter().max().unwrap_or(0).max(1);
    let mut at: Vec<Option<usize>> = vec![None; vertices * colours as usize];
    let place = |vertex: usize, colour: u32| vertex * colours as usize + colour as usize;
    let mut of = vec![0; edges.len()];
    for (edge, &[one, other]) in edges.iter().enumerate() {
        let free = |at: &[Option<usize>], vertex| (0..colours).find(|&colour| at[place(vertex, colour)].is_none());
        let (mine, theirs) = (free(&at, one).expect("enough colours"), free(&at, other).expect("enough colours"));
        // The path from `other` along edges of colour `mine`, `theirs`, `mine`, ... never comes to `one`.
        let (mut path, mut vertex, mut next) = (Vec::new(), other, mine);
        while let Some(blocking) = at[place(vertex, next)].filter(|_| mine != theirs) {
            path.push(blocking);
            vertex = edges[blocking].iter().copied().find(|&end| end != vertex).expect("two ends");
            next = mine + theirs - next;
        }
        path.iter().for_each(|&swapped| edges[swapped].iter().for_each(|&end| at[place(end, of[swapped])] = None));
        for swapped in path {
            of[swapped] = mine + theirs - of[swapped];
            edges[swapped].iter().for_each(|&end| at[place(end, of[swapped])] = Some(swapped));
        }
        of[edge] = mine;
        [one, other].iter().for_each(|&end| at[place(end, mine)] = Some(edge));
    }
    (of, colours)
}
