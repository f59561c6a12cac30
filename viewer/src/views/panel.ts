// The words beside the picture: how long a plan takes and why, and what is known of the thing that is selected.
import { NONE, row } from "../data/transfers";
import {
  busyShare, chunkOf, linkName, nodeName, stepOf, transferName, transfersOver, treeOf, type Model,
} from "../model";
import type { Selected, Store } from "../state";
import { counted, rate, share, size, time } from "../units";
import { fact, make } from "./elements";
import { explanation } from "./explanation";
import { endOf, followersOf } from "./timeline";

/** Fill the panel with the summaries of what is shown and with what is selected. */
export function fillPanel(host: HTMLElement, models: Model[], store: Store, chart: HTMLElement | null): void {
  const { selected } = store.state;
  const model = selected && models[selected.pane];
  const found = selected && model ? details(model, selected, store) : null;
  const parts: Node[] = found ? [found] : [];
  if (chart) parts.push(chart);
  host.replaceChildren(...parts, ...models.map((each, pane) => summary(each, store, pane, models)));
}

function summary(model: Model, store: Store, pane: number, models: Model[]): HTMLElement {
  const { scene } = model;
  const section = make("section", { class: "summary", "data-pane": pane });
  const other = models.length === 2 ? models[1 - pane].scene : null;
  section.append(make("h2", {}, scene.label));
  if (!model.isRead) {
    section.append(make("p", {}, `${counted(scene.transfers, "transfer")} are being read…`));
    return section;
  }
  section.append(make("dl", {}, ...facts(model)));
  if (other && other.time_s < scene.time_s * 0.999) {
    section.append(make("p", {}, `It takes ${(scene.time_s / other.time_s).toPrecision(3)} times as long as ${other.label}.`));
  }
  section.append(...explanation(model, store, pane));
  section.append(make("h3", {}, "Why it takes so long"), ...reasons(model).map((reason) => make("p", {}, reason)));
  section.append(
    make("div", { class: "buttons" },
      ...(scene.path ? [make("button", { click: () => store.set({ path: !store.state.path }), title: "p" },
        store.state.path ? "Hide the critical path" : "Show the critical path")] : []),
      make("button", { click: () => store.set({ colour: store.state.colour === "limit" ? "busy" : "limit" }), title: "l" },
        store.state.colour === "limit" ? "Show busy links" : "Show the limiting links")),
  );
  return section;
}

function facts(model: Model): HTMLElement[] {
  const { scene } = model;
  const { idle } = model;
  const parts = [
    ...fact("Time", `${time(scene.time_s)}, ${scene.simulator === "measured" ? "measured" : `by ${scene.simulator}`}`, scene.time_s),
    ...(scene.clock_uncertainty_s ? fact("Clocks", `may differ by ${time(scene.clock_uncertainty_s)}`, scene.clock_uncertainty_s) : []),
    ...fact("Bound", scene.time_s > 0 ? `${time(scene.bound_s)}: the plan is at ${share(scene.bound_s / scene.time_s)}` : "none", scene.bound_s),
    ...fact("Links used", `${share(scene.mean_utilization)} on average, ${share(scene.max_utilization)} at most`, scene.mean_utilization),
    ...fact("Idle links", `${idle} of ${model.busy.length} carry nothing`, idle),
    ...fact("Trees", counted(scene.trees, "tree") + (scene.steps ? ` in ${counted(scene.steps, "step")}` : ", streamed"), scene.trees),
    ...fact("Transfers", scene.transfers ? counted(scene.transfers, "transfer") : "none are listed", scene.transfers),
    ...(scene.path ? fact("Longest chain", counted(scene.path.transfers, "transfer"), scene.path.transfers) : []),
  ];
  if (scene.trees_here < scene.trees) {
    const rest = scene.served ? "name others above, and the server sends them" : "'treefold view --serve' has all";
    const here = `${counted(scene.trees_here, "tree")} of ${scene.trees}; heat counts all; ${rest}`;
    parts.push(...fact("In this file", here, scene.trees_here));
  }
  return parts;
}

/** Say in sentences what takes the time. */
function reasons(model: Model): string[] {
  const { scene } = model;
  const said: string[] = [];
  if (scene.path && scene.path.transfers) {
    const { transfers, sending_s, latency_s, waiting_s } = scene.path;
    const parts = [`${time(sending_s)} of sending`, `${time(latency_s)} of latency`];
    if (waiting_s > scene.time_s * 1e-6) parts.push(`${time(waiting_s)} of waiting`);
    const chain = transfers === 1 ? "one transfer" : `${transfers} transfers, each of which waits for the one before`;
    said.push(`The longest chain has ${chain}: ${parts.join(", ")}.`);
  }
  const busiest = model.busiest[0];
  if (busiest !== undefined && model.busy[busiest] > 0) {
    const { idle } = model;
    const level = `The busiest link, ${linkName(model, busiest)}, is busy ${share(busyShare(model, busiest, null))} of the time`;
    said.push(`${level}${idle ? `, while ${counted(idle, "link")} of ${model.busy.length} carry nothing` : ""}.`);
  }
  if (scene.bound_s > 0) {
    said.push(`No plan takes less than ${time(scene.bound_s)}, because of ${scene.limited_by}.`);
  }
  if (scene.limit_rate_Bps && scene.rate_limited_by !== scene.limited_by) {
    said.push(`Large vectors reach ${rate(scene.limit_rate_Bps)} at most, because of ${scene.rate_limited_by}.`);
  }
  return said;
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
  const { transfers, network } = model;
  const rank = network.ranks[node];
  let sends = 0, receives = 0, sent = 0, received = 0, last = 0;
  const sources = new Set<number>(), targets = new Set<number>();
  for (let lane = 0; lane < transfers.lanes.source.length; lane++) {
    const [source, target] = [transfers.lanes.source[lane], transfers.lanes.target[lane]];
    if (source !== node && target !== node) continue;
    for (const at of row(transfers.ofLane, lane)) {
      if (source === node) [sends, sent] = [sends + 1, sent + transfers.bytes[at]];
      else [receives, received, last] = [receives + 1, received + transfers.bytes[at], Math.max(last, transfers.received[at])];
    }
    if (source === node) targets.add(target);
    else sources.add(source);
  }
  const kind = network.kinds[node] === "accelerator" ? (rank < 0 ? "idle accelerator" : `rank ${rank}`) : network.kinds[node];
  const names = (nodes: Set<number>) => some([...nodes].map((each) => nodeName(model, each)));
  const roots = [...transfers.trees.root].flatMap((root: number, tree) => (root === node ? [tree] : []));
  const parts: HTMLElement[] = [make("h2", {}, nodeName(model, node)), make("dl", {}, ...fact("What", kind), ...(sends
    ? fact("Sends", `${size(sent)} in ${counted(sends, "transfer")} to ${names(targets)}`, sent) : []), ...(receives
    ? fact("Receives", `${size(received)} in ${counted(receives, "transfer")} from ${names(sources)}`, received) : []),
    ...(receives ? fact("Last receipt", time(last), last) : []))];
  if (roots.length) parts.push(treeButtons("Root of", roots, store, pane));
  return parts;
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
    ...(over.length ? fact("Carries", `${size(bytes)} in ${counted(over.length, "transfer")}`, bytes) : fact("Carries", "nothing")),
    ...(model.limit.has(link) ? fact("Limit", "it is one of the links that bound the network") : []))];
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
    parts.push(transferList(model, isData ? "It waits for these data" : "It waits for the link, which carries", [cause], store, pane));
  }
  if (followers.length) parts.push(transferList(model, "What waits for it", followers, store, pane));
  return parts;
}

function ofTree(model: Model, tree: number, store: Store): HTMLElement[] {
  const { edges, trees, lanes } = model.transfers;
  let from = Infinity, to = 0, uses = 0;
  const nodes = new Set<number>();
  for (let edge = 0; edge < edges.tree.length; edge++) {
    if (edges.tree[edge] !== tree) continue;
    uses++;
    nodes.add(lanes.source[edges.lane[edge]]).add(lanes.target[edges.lane[edge]]);
    if (edges.transfer[edge] === NONE) continue;
    from = Math.min(from, model.transfers.start[edges.transfer[edge]]);
    to = Math.max(to, model.transfers.received[edges.transfer[edge] + edges.chunks[edge] - 1]);
  }
  const only = JSON.stringify(store.state.trees) === `[${tree}]`;
  return [make("h2", {}, `Tree ${tree}`), make("dl", {},
    ...fact("Root", nodeName(model, trees.root[tree]), trees.root[tree]),
    ...(model.scene.phases > 1 ? fact("Phase", String(trees.phase[tree]), trees.phase[tree]) : []),
    ...fact("Share", `${share(trees.share[tree])} of the vector`, trees.share[tree]),
    ...fact("Reaches", `${counted(nodes.size, "node")} over ${counted(uses, "edge")}`, uses),
    ...(to > 0 ? fact("Time", `${time(from)} to ${time(to)}`, to - from) : [])),
    make("button", { click: () => store.set({ trees: only ? null : [tree] }) }, only ? "Show all trees" : "Show only this tree")];
}

const SHOWN = 40;

function treeButtons(title: string, trees: number[], store: Store, pane: number): HTMLElement {
  const buttons = trees.slice(0, SHOWN).map((tree) =>
    make("button", { class: "chip", click: () => store.set({ selected: { kind: "tree", at: tree, pane } }) }, `tree ${tree}`));
  const rest = trees.length > SHOWN ? ` and ${trees.length - SHOWN} more` : "";
  return make("div", { class: "list" }, make("h3", {}, title), ...buttons, rest);
}

function transferList(model: Model, title: string, list: number[], store: Store, pane: number): HTMLElement {
  const buttons = list.slice(0, SHOWN).map((transfer) => {
    const { start, sent } = model.transfers;
    const text = `${transferName(model, transfer)}, tree ${treeOf(model.transfers, transfer)}, ` +
      `${time(start[transfer])} to ${time(sent[transfer])}`;
    return make("button", { class: "row", click: () => store.set({ selected: { kind: "transfer", at: transfer, pane } }) }, text);
  });
  const rest = list.length > SHOWN ? `and ${list.length - SHOWN} more` : "";
  return make("div", { class: "list" }, make("h3", {}, title), ...buttons, rest);
}

function some(names: string[]): string {
  return names.length > 6 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", ");
}
