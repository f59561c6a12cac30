// The words beside the picture: what is known of the thing that is selected, a chart, and summaries of the plans.
import { NONE, row } from "../data/transfers";
import { findingsOfLink, findingsOfNode } from "../explained";
import {
  busyShare, chunkOf, endOf, followersOf, kindOf, linkName, nodeName, sharedBy, stepOf, transferName,
  transfersOver, treeOf,
  type Model,
} from "../model";
import type { Selected, Store } from "../state";
import { treeIn } from "../tree";
import { counted, rate, share, size, time } from "../units";
import { fact, make } from "./elements";
import { summariesOf } from "./summary";

/** Fill the panel with the summaries of what is shown and with what is selected. */
export function fillPanel(host: HTMLElement, models: Model[], store: Store, chart: HTMLElement | null): void {
  const { selected } = store.state;
  const model = selected && models[selected.pane];
  const found = selected && model ? details(model, selected, store) : null;
  const parts: Node[] = found ? [found] : [];
  const summaries = summariesOf(models, store);
  if (models.length > 1) parts.push(summaries.shift()!); // which plan is slower comes first
  if (chart) parts.push(chart);
  host.replaceChildren(...parts, ...summaries);
}

function details(model: Model, selected: Selected, store: Store): HTMLElement | null {
  const section = make("section", { class: "details", "aria-live": "polite" });
  const close = make("button", { class: "close", title: "Escape", click: () => store.set({ selected: null }) }, "×");
  const content = { node: ofNode, link: ofLink, transfer: ofTransfer, tree: ofTree }[selected.kind];
  const limit = { node: model.network.nodes.length, link: model.net.source.length,
    transfer: model.transfers.count, tree: model.transfers.trees.root.length }[selected.kind];
  if (selected.at >= limit) return null;
  section.append(close, ...content(model, selected.at, store, selected.pane));
  return section;
}

function ofNode(model: Model, node: number, store: Store, pane: number): HTMLElement[] {
  const sends = flowOf(model, node, "source"), receives = flowOf(model, node, "target");
  const parts: HTMLElement[] = [make("h2", {}, nodeName(model, node)), make("dl", {},
    ...fact("What", kindOf(model, node)),
    ...(model.network.guessed.includes(node) ? fact("Place", "it is guessed from the neighbours") : []),
    ...(sends.count ? fact("Sends", `${inWords(sends)} to ${sends.others}`, sends.bytes) : []),
    ...(receives.count ? fact("Receives", `${inWords(receives)} from ${receives.others}`, receives.bytes) : []),
    ...(receives.count ? fact("Last receipt", time(receives.last), receives.last) : []),
    ...(model.findings ? findingsOfNode(model.findings, node).flatMap((found) => fact(...found)) : []))];
  const roots = [...model.transfers.trees.root].flatMap((root: number, tree) => (root === node ? [tree] : []));
  if (roots.length) parts.push(treeButtons("Root of", roots, store, pane));
  return parts;
}

/** Return what a node sends, as the source of its transfers, or what it receives. */
function flowOf(model: Model, node: number, end: "source" | "target") {
  const { transfers } = model;
  const { lanes } = transfers;
  const others = new Set<string>();
  let count = 0, bytes = 0, last = 0;
  for (let lane = 0; lane < lanes.source.length; lane++) {
    if (lanes[end][lane] !== node) continue;
    others.add(nodeName(model, (end === "source" ? lanes.target : lanes.source)[lane]));
    for (const at of row(transfers.ofLane, lane)) {
      count++;
      bytes += transfers.bytes[at];
      last = Math.max(last, transfers.received[at]);
    }
  }
  return { count, bytes, last, others: some([...others]) };
}

function inWords({ count, bytes }: { count: number; bytes: number }): string {
  return `${size(bytes)} in ${counted(count, "transfer")}`;
}

function ofLink(model: Model, link: number, store: Store, pane: number): HTMLElement[] {
  const { transfers, net } = model;
  const over = transfersOver(model, link);
  const trees = [...new Set(Array.from(over, (transfer) => treeOf(transfers, transfer)))].sort((a, b) => a - b);
  const bytes = over.reduce((sum, transfer) => sum + transfers.bytes[transfer], 0);
  const { window } = store.state;
  const parts: HTMLElement[] = [make("h2", {}, linkName(model, link)), make("dl", {},
    ...fact("Bandwidth", rate(net.bandwidth_Bps[link]), net.bandwidth_Bps[link]),
    ...fact("Latency", time(net.latency_s[link]), net.latency_s[link]),
    ...fact("Busy", `${share(busyShare(model, link, null))} of the time`, model.busy[link]),
    ...(window ? fact("In the window", share(busyShare(model, link, window)), busyShare(model, link, window)) : []),
    ...fact("Used", `${share(model.used[link])} of its rate`, model.used[link]),
    ...sharedBy(model, link).flatMap((each) => fact("Shares", each)),
    ...fact("Carries", over.length ? inWords({ bytes, count: over.length }) : "nothing", bytes),
    ...(model.limit.has(link) ? fact("Limit", "it is one of the links that bound the network") : []),
    ...(model.findings ? findingsOfLink(model.findings, link).flatMap((found) => fact(...found)) : []))];
  if (trees.length) parts.push(treeButtons("Trees", trees, store, pane));
  if (over.length) parts.push(transferList(model, "Transfers", Array.from(over), store, pane));
  return parts;
}

function ofTransfer(model: Model, at: number, store: Store, pane: number): HTMLElement[] {
  const { transfers } = model;
  const edge = transfers.edge[at];
  const reduces = Boolean(transfers.edges.reduces[edge]);
  const cause = transfers.cause[at];
  const followers = followersOf(model, at);
  const step = stepOf(model, at);
  const chunks = transfers.edges.chunks[edge];
  const why = reduces ? "partial sum towards the root" : "result from the root";
  const parts: HTMLElement[] = [make("h2", {}, transferName(model, at)), make("dl", {},
    ...fact("What", `${size(transfers.bytes[at])}, a ${why}`, transfers.bytes[at]),
    ...(step ? fact("Step", String(step), step) : []),
    ...(chunks > 1 ? fact("Chunk", `${chunkOf(transfers, at) + 1} of ${chunks}`, chunkOf(transfers, at)) : []),
    ...fact("Starts", time(transfers.start[at]), transfers.start[at]),
    ...fact("Is sent", time(transfers.sent[at]), transfers.sent[at]),
    ...fact("Is received", time(transfers.received[at]), transfers.received[at]),
    ...(model.onPath.has(at) ? fact("Path", "it is on the critical path") : []))];
  parts.push(treeButtons("Tree", [treeOf(transfers, at)], store, pane));
  if (cause === NONE) parts.push(make("p", {}, "It waits for nothing."));
  else {
    const { isData } = endOf(model, cause, at);
    const title = isData ? "It waits for these data" : "It waits for the link, which carries";
    parts.push(transferList(model, title, [cause], store, pane));
  }
  if (followers.length) parts.push(transferList(model, "What waits for it", followers, store, pane));
  return parts;
}

function ofTree(model: Model, at: number, store: Store): HTMLElement[] {
  const tree = treeIn(model, at);
  const only = JSON.stringify(store.state.trees) === `[${at}]`;
  const [first, last] = tree.steps;
  return [make("h2", {}, `Tree ${at}`), make("dl", {},
    ...fact("Root", nodeName(model, tree.root), tree.root),
    ...(model.scene.phases > 1 ? fact("Phase", String(tree.phase), tree.phase) : []),
    ...fact("Share", `${share(tree.share)} of the vector: ${size(tree.bytes)}`, tree.share),
    ...fact("Reaches", `${counted(tree.nodes, "node")} over ${counted(tree.edges, "edge")}`, tree.edges),
    ...fact("Depth", counted(tree.depth, "edge"), tree.depth),
    ...(last ? fact("Steps", `${first} to ${last}`, last) : []),
    ...(tree.span[1] > 0 ? fact("Time", tree.span.map((each) => time(each)).join(" to ")) : [])),
    make("button", { click: () => store.set({ trees: only ? null : [at] }) },
      only ? "Show all trees" : "Show only this tree")];
}

const SHOWN = 40;

function treeButtons(title: string, trees: number[], store: Store, pane: number): HTMLElement {
  const select = (at: number) => store.set({ selected: { kind: "tree", at, pane }, pointed: null });
  const point = (event: Event, at: number) => {
    const { clientX: x, clientY: y } = event as PointerEvent;
    store.set({ pointed: { kind: "tree", at, pane, x, y } });
  };
  const pointerleave = () => store.set({ pointed: null });
  const buttons = trees.slice(0, SHOWN).map((tree) => make("button", { class: "chip", pointerleave,
    pointermove: (event) => point(event, tree), click: () => select(tree) }, `tree ${tree}`));
  const rest = trees.length > SHOWN ? ` and ${trees.length - SHOWN} more` : "";
  return make("div", { class: "list" }, make("h3", {}, title), ...buttons, rest);
}

function transferList(model: Model, title: string, list: number[], store: Store, pane: number): HTMLElement {
  const buttons = list.slice(0, SHOWN).map((transfer) => {
    const { start, sent } = model.transfers;
    const text = `${transferName(model, transfer)}, tree ${treeOf(model.transfers, transfer)}, ` +
      `${time(start[transfer])} to ${time(sent[transfer])}`;
    const select = () => store.set({ selected: { kind: "transfer", at: transfer, pane } });
    return make("button", { class: "row", click: select }, text);
  });
  const rest = list.length > SHOWN ? `and ${list.length - SHOWN} more` : "";
  return make("div", { class: "list" }, make("h3", {}, title), ...buttons, rest);
}

function some(names: string[]): string {
  return names.length > 6 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", ");
}
