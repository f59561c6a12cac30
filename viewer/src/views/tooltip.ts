// What is known of the thing under the pointer, in a few words.
import { row } from "../data/transfers";
import { findingsOfLink, findingsOfNode } from "../explained";
import { seriesOf } from "../looks";
import { busyShare, edgesShown, kindOf, linkName, nodeName, sharedBy, valueAt, type Model } from "../model";
import type { Pointed, State } from "../state";
import { treeIn } from "../tree";
import { amount, counted, rate, share, size, time } from "../units";
import { make } from "./elements";

export function fillTooltip(host: HTMLElement, model: Model | undefined, state: State): void {
  const { pointed: hover } = state;
  host.hidden = !hover || !model;
  if (!hover || !model) return;
  const lines = linesOf(model, hover, state);
  host.replaceChildren(...lines.map((line, at) => make(at ? "div" : "b", {}, line)));
  const [width, height] = [host.offsetWidth, host.offsetHeight];
  host.style.left = `${Math.min(hover.x + 14, innerWidth - width - 8)}px`;
  host.style.top = `${Math.min(hover.y + 14, innerHeight - height - 8)}px`;
}

function linesOf(model: Model, { kind, at }: Pointed, state: State): string[] {
  if (kind === "node") return ofNode(model, at, state);
  return kind === "tree" ? ofTree(model, at) : ofLink(model, at, state);
}

function inWords([term, words]: [string, string, number]): string {
  return `${term}: ${words}`;
}

function ofTree(model: Model, number: number): string[] {
  const tree = treeIn(model, number);
  const steps = tree.steps[1] ? `steps ${tree.steps[0]} to ${tree.steps[1]}` : "streamed";
  return [
    `Tree ${number}`, `root ${nodeName(model, tree.root)}`,
    `${share(tree.share)} of the vector: ${size(tree.bytes)}`,
    `${counted(tree.transfers, "transfer")} between ${counted(tree.nodes, "node")}`,
    `${counted(tree.depth, "edge")} deep, ${steps}`,
  ];
}

function ofNode(model: Model, node: number, state: State): string[] {
  const lines = [nodeName(model, node), kindOf(model, node)];
  if (model.network.guessed.includes(node)) lines.push("Its place on the map is guessed.");
  const series = seriesOf(model, state);
  if (series?.of === "nodes") {
    lines.push(`${series.title}: ${amount(valueAt(model, series.name, node, state.time), series.unit)}`);
  }
  if (model.findings) lines.push(...findingsOfNode(model.findings, node).map(inWords));
  if (state.trees) lines.push(...inTrees(model, node, state));
  return lines;
}

/** Say from whom and to whom a node has its data in the trees that are shown. */
function inTrees(model: Model, node: number, state: State): string[] {
  const { edges, lanes } = model.transfers;
  const from: string[] = [], to: string[] = [];
  for (const edge of edgesShown(model, state)) {
    const [source, target] = [lanes.source[edges.lane[edge]], lanes.target[edges.lane[edge]]];
    if (source !== node && target !== node) continue;
    const what = edges.reduces[edge] ? "partial sums" : "results";
    const step = edges.step[edge] ? ` in step ${edges.step[edge]}` : "";
    if (source === node) to.push(`${what} to ${nodeName(model, target)}${step}`);
    else from.push(`${what} from ${nodeName(model, source)}${step}`);
  }
  return [...from.slice(0, 5).map((each) => `gets ${each}`), ...to.slice(0, 5).map((each) => `sends ${each}`)];
}

function ofLink(model: Model, link: number, state: State): string[] {
  const { transfers } = model;
  let count = 0, first = Infinity, last = 0;
  const trees = new Set<number>();
  for (const lane of row(transfers.lanesOfLink, link)) {
    for (const transfer of row(transfers.ofLane, lane)) {
      count++;
      first = Math.min(first, transfers.start[transfer]);
      last = Math.max(last, transfers.received[transfer]);
      trees.add(transfers.edges.tree[transfers.edge[transfer]]);
    }
  }
  const part = state.window ? ` from ${time(state.window[0])} to ${time(state.window[1])}` : "";
  const lines = [linkName(model, link), `${rate(model.net.bandwidth_Bps[link])}, ${time(model.net.latency_s[link])}`,
    `busy ${share(busyShare(model, link, state.window))}${part}`];
  const span = `${time(first)} to ${time(last)}`;
  if (count) lines.push(`${counted(count, "transfer")} of ${counted(trees.size, "tree")}, ${span}`);
  lines.push(...sharedBy(model, link).map((each) => `shares ${each}`));
  if (model.findings) lines.push(...findingsOfLink(model.findings, link).map(inWords));
  if (model.limit.has(link)) lines.push("It limits every plan on this network.");
  return lines;
}
