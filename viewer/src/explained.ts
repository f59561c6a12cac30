// What an explanation says of each link and each node, as columns that colours and words are made of.
import type { Explained } from "./data/format";
import { share } from "./units";

/** What a failure costs: how many times as long the plan takes then; infinite if it cuts the network. */
export interface Costs {
  links: Float64Array;
  nodes: Float64Array;
  /** The largest that is finite; at least 1. */
  largest: number;
}

export interface Findings {
  explained: Explained;
  /** The part by which the bound grows with 10 % more of the link's cable, and the largest of all. */
  gains: Float64Array;
  largestGain: number;
  costs: Costs;
}

/** Return what an explanation finds of a network with so many links and nodes; null if there is no explanation. */
export function findingsOf(explained: Explained | null, links: number, nodes: number): Findings | null {
  if (!explained) return null;
  const gains = new Float64Array(links);
  for (const each of explained.links) for (const link of each.links) gains[link] = each.gain;
  const largestGain = gains.reduce((most, each) => Math.max(most, each), 0);
  return { explained, gains, largestGain, costs: costsOf(explained, links, nodes) };
}

function costsOf(explained: Explained, links: number, nodes: number): Costs {
  const costs = { links: new Float64Array(links).fill(1), nodes: new Float64Array(nodes).fill(1), largest: 1 };
  for (const failure of explained.failures) {
    const cost = costOf(failure);
    for (const link of failure.links) costs.links[link] = cost;
    if (failure.node !== null) costs.nodes[failure.node] = cost;
    if (Number.isFinite(cost)) costs.largest = Math.max(costs.largest, cost);
  }
  return costs;
}

function costOf(failure: Explained["failures"][number]): number {
  return failure.time ?? (failure.rate ? 1 / failure.rate : Infinity);
}

/** Say what a failure costs. */
export function costInWords(cost: number): string {
  return Number.isFinite(cost) ? `${cost.toFixed(2)} × the time` : "nothing can be sent";
}

/** Return the strength of a cost between 0 (none) and 1 (the worst). */
export function strengthOf(cost: number, costs: Costs): number {
  if (!Number.isFinite(cost)) return 1;
  return costs.largest > 1 ? (0.85 * Math.max(cost - 1, 0)) / (costs.largest - 1) : 0;
}

/** Say what an explanation finds of a link. */
export function linkInWords(found: Findings, link: number): string[] {
  const gain = found.gains[link];
  const worth = gain > 0 ? `10 % more of it: ${share(gain)} more for all` : "10 % more of it alone gains nothing";
  return [worth, `without it: ${costInWords(found.costs.links[link])}`];
}

export function nodeInWords(found: Findings, node: number): string[] {
  return [`without it: ${costInWords(found.costs.nodes[node])}`];
}
