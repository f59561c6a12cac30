// The transfers and the tree edges of a scene, as columns, with indexes to find those of a lane, a link or a moment.
//
// A lane is a pair of ranks with a route. An edge is a tree's use of a lane. A transfer is what an edge sends at once:
// a message, or a chunk of a stream; a message may serve the edges of several trees.
import type { Column, Columns } from "./columns";
import type { Scene } from "./format";

/** No transfer; also the cause of a transfer that waited for none. */
export const NONE = 0xffffffff;

/** Rows of a compressed table: the numbers of row r are `items[starts[r]]` to `items[starts[r + 1] - 1]`. */
interface Rows {
  starts: Uint32Array;
  items: Uint32Array;
}

export interface Transfers {
  count: number;
  lanes: { source: Column; target: Column; start: Column; links: Column };
  trees: { root: Column; phase: Column; share: Column };
  edges: { tree: Column; reduces: Column; lane: Column; step: Column; transfer: Column; chunks: Column };
  /** The first edge that each transfer serves. */
  edge: Uint32Array;
  start: Float64Array;
  sent: Float64Array;
  received: Float64Array;
  bytes: Column;
  /** The transfer that each waited for last, or NONE. */
  cause: Uint32Array;
  path: Column;
  /** The transfers of each lane, by their start. */
  ofLane: Rows;
  /** The lanes of each link. */
  lanesOfLink: Rows;
}

/** Read the transfers of a block. Times are whole ticks of a 2^30th of the time of the scene. */
export function transfersOf(scene: Scene, columns: Columns, links: number): Transfers {
  const tick = scene.time_s / 2 ** 30;
  const count = columns.gap?.length ?? 0;
  // Causes are distances back; 0 is none.
  const causeOf = (at: number) => (columns.cause[at] === 0 ? NONE : at - columns.cause[at]);
  const cause = Uint32Array.from({ length: count }, (_, at) => causeOf(at));
  const lanes = {
    source: columns.lane_source,
    target: columns.lane_target,
    start: columns.lane_start,
    links: columns.lane_links,
  };
  const edges = {
    tree: columns.edge_tree,
    reduces: columns.edge_reduces,
    lane: columns.edge_lane,
    step: columns.edge_step,
    transfer: columns.edge_transfer,
    chunks: columns.edge_chunks,
  };
  const edge = ownersOf(edges.transfer, edges.chunks, count);
  const laneOf = (transfer: number) => edges.lane[edge[transfer]];
  const ticks = startsOf(columns, cause, laneOf);
  const byStart = sortedBy(ticks);
  return {
    count,
    lanes,
    trees: { root: columns.tree_root, phase: columns.tree_phase, share: columns.tree_share },
    edges,
    edge,
    start: Float64Array.from(ticks, (each) => each * tick),
    sent: Float64Array.from(ticks, (each, at) => (each + columns.sending[at]) * tick),
    received: Float64Array.from(ticks, (each, at) => (each + columns.sending[at] + columns.latency[at]) * tick),
    bytes: columns.bytes,
    cause,
    path: columns.path,
    ofLane: rowsOf(lanes.source.length, byStart, laneOf),
    lanesOfLink: lanesOfLinks(lanes.start, lanes.links, links),
  };
}

/** Return when each transfer starts, in ticks: its gap after the end of its cause, whose start must be known first. */
function startsOf(columns: Columns, cause: Uint32Array, laneOf: (transfer: number) => number): Uint32Array {
  const starts = new Uint32Array(cause.length).fill(NONE);
  const open: number[] = [];
  for (let first = 0; first < cause.length; first++) {
    for (let at = first; at !== NONE && starts[at] === NONE; at = cause[at]) open.push(at);
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      const before = cause[at];
      let end = 0;
      if (before !== NONE) {
        const isData = columns.lane_target[laneOf(before)] === columns.lane_source[laneOf(at)];
        end = starts[before] + columns.sending[before] + (isData ? columns.latency[before] : 0);
      }
      starts[at] = Math.max(end + columns.gap[at], 0);
    }
  }
  return starts;
}

/** Return the first edge that each transfer serves. */
function ownersOf(first: Column, chunks: Column, count: number): Uint32Array {
  const edge = new Uint32Array(count).fill(NONE);
  for (let at = 0; at < first.length; at++) {
    if (first[at] === NONE || edge[first[at]] !== NONE) continue;
    edge.fill(at, first[at], first[at] + chunks[at]);
  }
  return edge;
}

/** Return places sorted by keys of 32 bits, in three passes of a radix sort. */
function sortedBy(keys: Column): Uint32Array {
  let order: Uint32Array = Uint32Array.from({ length: keys.length }, (_, at) => at);
  for (const shift of [0, 11, 22]) order = rowsOf(1 << 11, order, (at) => (keys[at] >>> shift) & 0x7ff).items;
  return order;
}

/** Sort items into rows, in their order. */
function rowsOf(rows: number, items: Uint32Array, rowOf: (item: number) => number): Rows {
  const starts = new Uint32Array(rows + 1);
  for (const item of items) starts[rowOf(item) + 1]++;
  for (let row = 0; row < rows; row++) starts[row + 1] += starts[row];
  const next = starts.slice(0, rows);
  const sorted = new Uint32Array(items.length);
  for (const item of items) sorted[next[rowOf(item)]++] = item;
  return { starts, items: sorted };
}

function lanesOfLinks(start: Column, links: Column, count: number): Rows {
  const lane = new Uint32Array(links.length);
  for (let at = 0; at + 1 < start.length; at++) lane.fill(at, start[at], start[at + 1]);
  const hops = Uint32Array.from({ length: links.length }, (_, at) => at);
  const rows = rowsOf(count, hops, (hop) => links[hop]);
  return { starts: rows.starts, items: rows.items.map((hop) => lane[hop]) };
}

/** Return the items of a row. */
export function row(rows: Rows, at: number): Uint32Array {
  return rows.items.subarray(rows.starts[at], rows.starts[at + 1]);
}

/** Return how many transfers of a lane started by a moment, as a place among the items of `ofLane`. */
export function startedBy(transfers: Transfers, lane: number, moment: number): number {
  const { starts, items } = transfers.ofLane;
  let low = starts[lane];
  let high = starts[lane + 1];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (transfers.start[items[middle]] <= moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function treeOf(transfers: Transfers, transfer: number): number {
  return transfers.edges.tree[transfers.edge[transfer]];
}

export function laneOf(transfers: Transfers, transfer: number): number {
  return transfers.edges.lane[transfers.edge[transfer]];
}

/** Return a transfer's chunk of its edge, from 0. */
export function chunkOf(transfers: Transfers, transfer: number): number {
  return transfer - transfers.edges.transfer[transfers.edge[transfer]];
}
