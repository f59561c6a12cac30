// Series with uPlot: algorithms against size, where a click shows that plan, and a quantity of a node over time.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { category, css, themeOf, type Theme } from "../colours";
import type { Document, Scene } from "../data/format";
import { nodeName, linkName, type Model } from "../model";
import { switchedTo, type Store } from "../state";
import { rate, size, time } from "../units";
import { make } from "./elements";

let current: uPlot | null = null;

/** Keep one chart at a time: the one before gives back what it listens to. */
function only(plot: uPlot): uPlot {
  current?.destroy();
  current = plot;
  return plot;
}

/** The bandwidths of algorithms, as lines over sizes. */
interface Lines {
  sizes: number[];
  names: string[];
  /** The number of the scene of each name and size, or -1. */
  scenes: number[][];
  bandwidths: (number | null)[][];
  bounds: (number | null)[];
}

function linesOf({ scenes, networks }: Document): Lines {
  const isOne = networks.length === 1;
  const nameOf = ({ algorithm, network }: Scene) => (isOne ? algorithm : `${algorithm}, ${networks[network].name}`);
  const sizes = [...new Set(scenes.map((scene) => scene.size_bytes))].sort((a, b) => a - b);
  const names = [...new Set(scenes.map(nameOf))];
  const found = names.map((name) => sizes.map((bytes) =>
    scenes.findIndex((scene) => nameOf(scene) === name && scene.size_bytes === bytes)));
  const rateOf = (at: number, key: "time_s" | "bound_s") =>
    (scenes[at]?.[key] > 0 ? scenes[at].size_bytes / scenes[at][key] : null);
  const bounds = sizes.map((bytes) =>
    (isOne ? rateOf(scenes.findIndex((each) => each.size_bytes === bytes), "bound_s") : null));
  return { sizes, names, scenes: found, bandwidths: found.map((row) => row.map((at) => rateOf(at, "time_s"))), bounds };
}

/** Draw the bandwidth of each algorithm against size, if the page has plans of several sizes; else null. */
export function comparisonChart(document: Document, store: Store, width: number): HTMLElement | null {
  const lines = linesOf(document);
  if (document.scenes.length < 3 || lines.sizes.length < 2) return null;
  const title = "Size divided by time, against the size of the vector: click a point to see its plan";
  const host = make("section", { class: "chart" }, make("h3", {}, title));
  const { sizes, bandwidths, bounds } = lines;
  const options = comparisonLook(lines.names, themeOf(store.state.theme), width);
  const plot = only(new uPlot(options, [sizes, ...bandwidths, bounds] as uPlot.AlignedData, host));
  plot.over.addEventListener("click", () => {
    const scene = nearestScene(plot, lines);
    if (scene >= 0) store.set(switchedTo([scene]));
  });
  return host;
}

function comparisonLook(names: string[], theme: Theme, width: number): uPlot.Options {
  const faint = { stroke: css(theme.faint) };
  const axis = { stroke: css(theme.ink), grid: { ...faint, width: 1 }, ticks: faint };
  const value = (_: uPlot, each: number | null) => (each === null ? "" : rate(each));
  return {
    width, height: 240, cursor: { focus: { prox: 24 } }, focus: { alpha: 0.35 },
    legend: { live: false, markers: { fill: markerFill, dash: (_, at) => (at > names.length ? "dashed" : "solid") } },
    scales: { x: { time: false, distr: 3, log: 2 }, y: { range: (_, __, most) => [0, most * 1.06] } },
    axes: [
      { ...axis, values: (_, values) => values.map((each) => (each === null ? "" : size(each))), space: 60 },
      { ...axis, values: (_, values) => values.map(rate), size: 70 },
    ],
    series: [{ label: "size", value: (_, each) => (each === null ? "" : size(each)) }, ...names.map((label, at) => (
      { label, stroke: css(category(at, theme)), width: 2, points: { show: true, size: 8 }, value }
    )), { label: "bound", stroke: css(theme.ink), dash: [4, 3], points: { show: false }, value }],
  };
}

/** Fill the markers of the legend with the colours of their lines; that of the bound, which is dashed, is empty. */
function markerFill(plot: uPlot, at: number): string {
  const { dash, stroke } = plot.series[at];
  return dash || typeof stroke !== "function" ? "transparent" : String(stroke(plot, at));
}

/** Return the scene whose point is nearest to the pointer, or -1. */
function nearestScene(plot: uPlot, { scenes, bandwidths }: Lines): number {
  const at = plot.cursor.idx ?? -1;
  let best = -1;
  let least = Infinity;
  scenes.forEach((row, line) => {
    const value = bandwidths[line][at] ?? null;
    if (value === null) return;
    const far = Math.abs(plot.valToPos(value, "y") - (plot.cursor.top ?? 0));
    if (far < least) [best, least] = [row[at], far];
  });
  return best;
}

/** Draw how the series that is shown goes over time for the node or link that is selected; null if there is none. */
export function seriesChart(model: Model, store: Store, pane: number, width: number): HTMLElement | null {
  const { colour, selected, theme } = store.state;
  const found = model.tables.get(colour.replace(/^series:/, ""));
  if (!found || selected?.pane !== pane) return null;
  const { series, table } = found;
  if (selected.kind !== (series.of === "nodes" ? "node" : "link")) return null;
  const looks = themeOf(theme);
  const step = model.scene.time_s / series.windows;
  const times = Array.from({ length: series.windows }, (_, at) => (at + 0.5) * step);
  const row = table.subarray(selected.at * series.windows, (selected.at + 1) * series.windows);
  const values = Array.from(row, (each: number) => (each / 65535) * series.largest);
  const name = series.of === "nodes" ? nodeName(model, selected.at) : linkName(model, selected.at);
  const host = make("section", { class: "chart" }, make("h3", {}, `${series.title}: ${name}`));
  const axis = { stroke: css(looks.ink), grid: { stroke: css(looks.faint), width: 1 } };
  only(new uPlot({
    width, height: 150, legend: { show: false }, scales: { x: { time: false } },
    axes: [{ ...axis, values: (_, each) => each.map(time) }, { ...axis, size: 60 }],
    series: [{}, { stroke: css(looks.accent), width: 1.5, fill: css(looks.accent, 0.2), points: { show: false } }],
  }, [times, values], host));
  return host;
}
