// A scene that is loaded: its network, its transfers and its series, and what is asked of them.
import { blockFrom, blockOf, type Column, type Columns } from "./data/columns";
import type { Document, Network, Scene, Series } from "./data/format";
import { chunkOf, laneOf, NONE, row, transfersOf, treeOf, type Transfers } from "./data/transfers";
import { findingsOf, type Findings } from "./explained";
import type { State } from "./state";
import { rate, share } from "./units";

export interface Model {
  /** Whether the transfers are read; before, only the network is known. */
  isRead: boolean;
  scene: Scene;
  network: Network;
  /** The columns of the network. */
  net: Columns;
  transfers: Transfers;
  /** The links, the busiest first. */
  busiest: Uint32Array;
  /** The seconds for which each link carries anything, and the share of the time for which its full rate is used. */
  busy: Float64Array;
  used: Float64Array;
  /** How many links carry nothing, and whether anything is sent in chunks. */
  idle: number;
  hasChunks: boolean;
  /** The bandwidth of the widest link. */
  widest_Bps: number;
  /** How much of each window each link is busy, added up: `windows + 1` numbers a link. */
  heat: Float32Array;
  windows: number;
  tables: Map<string, { series: Series; table: Column }>;
  limit: Set<number>;
  onPath: Set<number>;
  findings: Findings | null;
}

export async function networkOf(network: Network): Promise<Columns> {
  return blockOf(network.columns);
}

/** Load a scene; `trees` asks a server for others than those that the page has. */
export async function modelOf(document: Document, at: number, net: Columns, trees?: number[]): Promise<Model> {
  const scene = document.scenes[at];
  const address = trees ? `${scene.served}?trees=${trees.join(",")}` : scene.served;
  const columns = address ? await blockFrom(address) : await blockOf(scene.columns);
  return builtOf(document, scene, net, columns);
}

/** Return a scene before its transfers are read: its network, which is shown at once. */
export function outlineOf(document: Document, at: number, net: Columns): Model {
  const none = new Uint32Array(0);
  const names = ["lane_source", "lane_target", "lane_links", "tree_root", "tree_phase", "tree_share", "edge_tree",
    "edge_reduces", "edge_lane", "edge_step", "edge_transfer", "edge_chunks", "path", "heat"];
  const columns: Columns = Object.fromEntries(names.map((name) => [name, none]));
  const links = net.source.length;
  const idle = { busy_s: new Float64Array(links), used: new Float64Array(links) };
  const empty = { ...columns, ...idle, lane_start: new Uint32Array(1) };
  return { ...builtOf(document, { ...document.scenes[at], series: [] }, net, empty), isRead: false };
}

function builtOf(document: Document, scene: Scene, net: Columns, columns: Columns): Model {
  const links = net.source.length;
  const transfers = transfersOf(scene, columns, links);
  const windows = links ? columns.heat.length / links : 0;
  const busy = columns.busy_s as Float64Array;
  const used = columns.used as Float64Array;
  const busiest = Uint32Array.from({ length: links }, (_, link) => link).sort(
    (a, b) => busy[b] - busy[a] || used[b] - used[a] || a - b,
  );
  const tables = new Map(
    scene.series.map((series) => [series.name, { series, table: columns[`series-${series.name}`] }]),
  );
  return {
    isRead: true,
    scene,
    network: document.networks[scene.network],
    net,
    transfers,
    busiest,
    busy,
    used,
    idle: busy.filter((each) => each === 0).length,
    hasChunks: (transfers.edges.chunks as Uint32Array).some((chunks) => chunks > 1),
    widest_Bps: (net.bandwidth_Bps as Float64Array).reduce((most, each) => Math.max(most, each), 0),
    heat: addedUp(columns.heat, links, windows),
    windows,
    tables,
    limit: new Set(scene.limit_links),
    onPath: new Set(transfers.path),
    findings: findingsOf(scene.explained, links, document.networks[scene.network].nodes.length),
  };
}

/** Add up a table of shares (65,535 is all of a window) along each row. */
function addedUp(table: Column, rows: number, windows: number): Float32Array {
  const sums = new Float32Array(rows * (windows + 1));
  for (let at = 0; at < rows; at++) {
    for (let window = 0; window < windows; window++) {
      const place = at * (windows + 1) + window;
      sums[place + 1] = sums[place] + table[at * windows + window] / 65535;
    }
  }
  return sums;
}

/** Return the share of a part of the time in which a link carries something; of all the time if there is no part. */
export function busyShare(model: Model, link: number, part: [number, number] | null): number {
  const time = model.scene.time_s;
  if (!model.windows) return 0;
  if (!part) return time > 0 ? model.busy[link] / time : 0;
  const [from, to] = part.map((moment) => (Math.min(Math.max(moment / time, 0), 1) * model.windows));
  if (!(to > from)) return 0;
  return Math.min((upTo(model, link, to) - upTo(model, link, from)) / (to - from), 1);
}

function upTo(model: Model, link: number, window: number): number {
  const base = link * (model.windows + 1);
  const whole = Math.min(Math.floor(window), model.windows - 1);
  const [low, high] = [model.heat[base + whole], model.heat[base + whole + 1]];
  return low + (high - low) * (window - whole);
}

/** Return the value of a series for a node or link at a moment. */
export function valueAt(model: Model, name: string, item: number, moment: number): number {
  const found = model.tables.get(name);
  if (!found) return 0;
  const { series, table } = found;
  const window = Math.min(Math.floor((moment / model.scene.time_s) * series.windows), series.windows - 1);
  return (table[item * series.windows + Math.max(window, 0)] / 65535) * series.largest;
}

/** Return the numbers of the trees that are shown; null if all are. A root is another tree in each plan. */
export function treesOf(model: Model, state: State): number[] | null {
  if (typeof state.trees !== "string") return state.trees;
  const node = model.network.nodes.indexOf(state.trees);
  return [...model.transfers.trees.root].flatMap((root: number, tree) => (root === node ? [tree] : []));
}

/** Tell whether the filters of half, phase and step let an edge pass. */
function edgePasses(model: Model, state: State, edge: number): boolean {
  const { edges, trees } = model.transfers;
  if (state.half !== "both" && (state.half === "reduce") !== Boolean(edges.reduces[edge])) return false;
  if (state.phase !== null && trees.phase[edges.tree[edge]] !== state.phase) return false;
  return state.step === null || edges.step[edge] === state.step;
}

/** Return which transfers the filters let pass: 1 or 0 for each; a message passes with any edge that it serves. */
export function passing(model: Model, state: State): Uint8Array {
  const { edges, count } = model.transfers;
  const mask = new Uint8Array(count);
  if (!state.trees && state.half === "both" && state.phase === null && state.step === null) return mask.fill(1);
  for (const edge of edgesShown(model, state)) {
    const first = edges.transfer[edge];
    if (first !== NONE) mask.fill(1, first, first + edges.chunks[edge]);
  }
  return mask;
}

/** Return the edges that the filters let pass. */
export function edgesShown(model: Model, state: State): number[] {
  const { edges } = model.transfers;
  const shown: number[] = [];
  const trees = treesOf(model, state);
  const wanted = trees && new Set(trees);
  for (let edge = 0; edge < edges.tree.length; edge++) {
    if ((!wanted || wanted.has(edges.tree[edge])) && edgePasses(model, state, edge)) shown.push(edge);
  }
  return shown;
}

/** Return the transfers over a link, by their start. */
export function transfersOver(model: Model, link: number): Uint32Array {
  const { transfers } = model;
  const lanes = row(transfers.lanesOfLink, link);
  if (lanes.length === 1) return row(transfers.ofLane, lanes[0]);
  const all = Array.from(lanes, (lane) => Array.from(row(transfers.ofLane, lane))).flat();
  return Uint32Array.from(all).sort((a, b) => transfers.start[a] - transfers.start[b] || a - b);
}

export function nodeName(model: Model, node: number): string {
  return model.network.nodes[node];
}

/** Return what a node is, in words. */
export function kindOf({ network }: Model, node: number): string {
  const rank = network.ranks[node];
  if (network.kinds[node] !== "accelerator") return network.kinds[node];
  return rank < 0 ? "idle accelerator" : `rank ${rank}`;
}

export function linkName(model: Model, link: number): string {
  return `${nodeName(model, model.net.source[link])} → ${nodeName(model, model.net.target[link])}`;
}

/** Say what capacities a link shares: each with its bandwidth and, where that is known, how much of it is used. */
export function sharedBy({ network, scene }: Model, link: number): string[] {
  return network.shared.flatMap(({ name, bandwidth_Bps, links }, at) => {
    const used = scene.shared_used.length ? `, used ${share(scene.shared_used[at])}` : "";
    return links.includes(link) ? [`${name} (${rate(bandwidth_Bps)}${used})`] : [];
  });
}

export function transferName(model: Model, transfer: number): string {
  const { lanes } = model.transfers;
  const lane = laneOf(model.transfers, transfer);
  return `${nodeName(model, lanes.source[lane])} → ${nodeName(model, lanes.target[lane])}`;
}

/** Return the transfers that waited for a transfer. */
export function followersOf(model: Model, transfer: number): number[] {
  const found: number[] = [];
  const { cause, count } = model.transfers;
  for (let at = 0; at < count && found.length < 200; at++) if (cause[at] === transfer) found.push(at);
  return found;
}

/** Return when a transfer let another go, and whether by its data, which the other sends on, or by leaving the link. */
export function endOf(model: Model, from: number, to: number): { end: number; isData: boolean } {
  const { lanes, sent, received } = model.transfers;
  const isData = lanes.target[laneOf(model.transfers, from)] === lanes.source[laneOf(model.transfers, to)];
  return { end: isData ? received[from] : sent[from], isData };
}

export function stepOf(model: Model, transfer: number): number {
  return model.transfers.edges.step[model.transfers.edge[transfer]];
}

export { chunkOf, laneOf, treeOf };
