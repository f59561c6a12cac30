// How what is shown is coloured: one rule for the picture of the network and for the timeline.
import { strengthOf, type Costs } from "./explained";
import { category, heat, ordered, type Rgb, type Theme } from "./colours";
import { busyShare, chunkOf, stepOf, treeOf, treesOf, valueAt, type Model } from "./model";
import type { State } from "./state";

/** Return the colour of a transfer or a tree's edge. */
export function transferColour(model: Model, state: State, theme: Theme, transfer: number): Rgb {
  const { transfers, scene } = model;
  switch (state.colour) {
    case "tree":
      return category(treeOf(transfers, transfer), theme);
    case "step":
      return ordered(fraction(stepOf(model, transfer) - 1, scene.steps), theme);
    case "chunk": {
      const chunks = transfers.edges.chunks[transfers.edge[transfer]];
      return ordered(fraction(chunkOf(transfers, transfer), chunks), theme);
    }
    default:
      return edgeColour(model, state, theme, transfers.edge[transfer]);
  }
}

function halfColour(reduces: boolean, theme: Theme): Rgb {
  return category(reduces ? 0 : 1, theme);
}

export function edgeColour(model: Model, state: State, theme: Theme, edge: number): Rgb {
  const { edges } = model.transfers;
  if (state.colour === "step") return ordered(fraction(edges.step[edge] - 1, model.scene.steps), theme);
  if (state.colour === "tree" || (treesOf(model, state)?.length ?? 0) > 1) return category(edges.tree[edge], theme);
  return halfColour(Boolean(edges.reduces[edge]), theme);
}

function fraction(at: number, count: number): number {
  return count > 1 ? Math.max(at, 0) / (count - 1) : 0;
}

/** Tell whether colours say something of the network, and nothing of what moves. */
export function isOfNetwork(colour: State["colour"]): boolean {
  return ["busy", "limit", "worth", "failures"].includes(colour) || colour.startsWith("series:");
}

/** Return the colour of a link where nothing moves. */
export function linkColour(model: Model, state: State, theme: Theme, link: number): Rgb {
  if (state.trees && state.colour !== "limit") return theme.faint; // the trees are drawn over the links
  if (state.colour === "busy") return heat(busyShare(model, link, state.window), theme);
  if (state.colour === "limit") return model.limit.has(link) ? theme.limit : theme.faint;
  if (model.findings && state.colour === "worth") {
    const { gains, largestGain } = model.findings;
    return heat(gains[link] / (largestGain || 1), theme);
  }
  if (model.findings && state.colour === "failures") {
    return costColour(model.findings.costs.links[link], model.findings.costs, theme);
  }
  const series = seriesOf(model, state);
  if (series?.of === "links") {
    return heat(valueAt(model, series.name, link, state.time) / (series.largest || 1), theme);
  }
  return theme.faint;
}

/** Return the colour of what a failure costs; one that leaves nothing to send has the colour of limits. */
function costColour(cost: number, costs: Costs, theme: Theme): Rgb {
  return Number.isFinite(cost) ? heat(strengthOf(cost, costs), theme) : theme.limit;
}

/** Return the colour of a node: by its kind, or by the series that is shown. */
export function nodeColour(model: Model, state: State, theme: Theme, node: number): Rgb {
  const series = seriesOf(model, state);
  if (series?.of === "nodes") {
    return heat(valueAt(model, series.name, node, state.time) / (series.largest || 1), theme);
  }
  if (model.findings && state.colour === "failures") {
    return costColour(model.findings.costs.nodes[node], model.findings.costs, theme);
  }
  return model.network.kinds[node] === "accelerator" ? theme.accelerator : theme.switch;
}

export function seriesOf(model: Model, state: State) {
  return state.colour.startsWith("series:") ? model.tables.get(state.colour.slice(7))?.series : undefined;
}
