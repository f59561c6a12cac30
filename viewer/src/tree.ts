// What is known of one tree: its root, what it carries, when, and how deep it is.
import { bisectLeft, max, min, range } from "d3-array";

import { NONE } from "./data/transfers";
import type { Model } from "./model";

export interface Tree {
  root: number;
  /** Its share of the vector, from 0 to 1, and the bytes of that. */
  share: number;
  bytes: number;
  phase: number;
  nodes: number;
  edges: number;
  transfers: number;
  /** The most edges between its root and another node. */
  depth: number;
  /** Its first and last step; both are 0 if it streams. */
  steps: [number, number];
  /** When its first transfer starts and its last one is received, in seconds; both are 0 if it has none here. */
  span: [number, number];
}

export function treeIn(model: Model, tree: number): Tree {
  const { edges, trees, lanes, start, received } = model.transfers;
  const own = edgesOf(model, tree);
  const steps = own.map((edge) => edges.step[edge]);
  const sent = own.filter((edge) => edges.transfer[edge] !== NONE);
  const lasts = sent.map((edge) => received[edges.transfer[edge] + edges.chunks[edge] - 1]);
  const nodes = new Set(own.flatMap((edge) => [lanes.source[edges.lane[edge]], lanes.target[edges.lane[edge]]]));
  return {
    root: trees.root[tree],
    share: trees.share[tree],
    bytes: trees.share[tree] * model.scene.size_bytes,
    phase: trees.phase[tree],
    nodes: nodes.size,
    edges: own.length,
    transfers: sent.reduce((sum, edge) => sum + edges.chunks[edge], 0),
    depth: depthOf(model, own),
    steps: [min(steps) ?? 0, max(steps) ?? 0],
    span: [min(sent, (edge) => start[edges.transfer[edge]]) ?? 0, max(lasts) ?? 0],
  };
}

/** Return the edges of a tree, which stand one after the other. */
export function edgesOf(model: Model, tree: number): number[] {
  const trees = model.transfers.edges.tree as Uint32Array;
  return range(bisectLeft(trees, tree), bisectLeft(trees, tree + 1));
}

/** Return the longest way from a node to the root; a reducing edge leads there, a broadcasting one comes from it. */
function depthOf(model: Model, own: number[]): number {
  const { edges, lanes } = model.transfers;
  const parents = new Map(own.map((edge): [number, number] => {
    const [source, target] = [lanes.source[edges.lane[edge]], lanes.target[edges.lane[edge]]];
    return edges.reduces[edge] ? [source, target] : [target, source];
  }));
  const depths = new Map<number, number>();
  for (const node of parents.keys()) {
    const way: number[] = [];
    for (let at = node; parents.has(at) && !depths.has(at); at = parents.get(at)!) {
      depths.set(at, 0); // so that no circle is walked twice
      way.push(at);
    }
    for (const at of way.reverse()) depths.set(at, 1 + (depths.get(parents.get(at)!) ?? 0));
  }
  return max(depths.values()) ?? 0;
}
