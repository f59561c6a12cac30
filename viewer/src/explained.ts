// What an explanation says of each link and each node, as columns that colours and words are made of.
import type { Explained } from "./data/format";
import { share } from "./units";

/** What a failure costs: how many times as long the plan takes then; infinite if it cuts the network. */
export interface Costs {
  links: Float64Array;
  nodes: Float64Array;
  /** The largest that is finite; at least `LEAST_LARGEST`. */
  largest: number;
  /** Whether some failure cuts the network. */
  hasCuts: boolean;
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

/** A scale of costs ends here or later, so that costs that hardly differ from none do not look grave. */
const LEAST_LARGEST = 1.25;

function costsOf(explained: Explained, links: number, nodes: number): Costs {
  const [ofLinks, ofNodes] = [links, nodes].map((count) => new Float64Array(count).fill(1));
  const costs = { links: ofLinks, nodes: ofNodes, largest: LEAST_LARGEST, hasCuts: false };
  for (const failure of explained.failures) {
    const cost = costOf(failure);
    for (const link of failure.links) costs.links[link] = cost;
    if (failure.node !== null) costs.nodes[failure.node] = cost;
    if (Number.isFinite(cost)) costs.largest = Math.max(costs.largest, cost);
    else costs.hasCuts = true;
  }
  return costs;
}

function costOf(failure: Explained["failures"][number]): number {
  return failure.time ?? (failure.rate ? 1 / failure.rate : Infinity);
}

/** Say what a failure costs, or why nothing can be sent after it. */
export function failureInWords(failure: Explained["failures"][number]): string {
  const { time, rate, problem } = failure;
  if (time !== null) return costInWords(time);
  const reason = problem.split(":")[0];
  return rate === null ? reason : `${share(rate)} of the best rate, but ${reason}`;
}

/** Say how much longer a plan takes at a cost. */
export function costInWords(cost: number): string {
  return Number.isFinite(cost) ? `${cost.toFixed(2)} × the time` : "nothing can be sent";
}

export function gainInWords(gain: number): string {
  return gain > 0 ? `+${share(gain)}` : "gains nothing alone";
}

/** Return the strength of a finite cost between 0 (none) and 1 (the worst). */
export function strengthOf(cost: number, costs: Costs): number {
  return Math.max(cost - 1, 0) / (costs.largest - 1);
}

/** What is found of a link or a node: what that is called, in words, and exactly. */
type Finding = [term: string, words: string, value: number];

export function findingsOfLink(found: Findings, link: number): Finding[] {
  const gain = found.gains[link];
  return [withoutIt(found.costs.links[link]), ["10 % more of it", gainInWords(gain), gain]];
}

export function findingsOfNode(found: Findings, node: number): Finding[] {
  return [withoutIt(found.costs.nodes[node])];
}

function withoutIt(cost: number): Finding {
  return ["Without it", costInWords(cost), cost];
}
