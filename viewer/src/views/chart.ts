// Series with uPlot: algorithms against size, where a click shows that plan, and a quantity of a node over time.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { category, css, themeOf } from "../colours";
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

/** Draw the bandwidth of each algorithm against size, if the page has plans of several sizes; else null. */
export function comparisonChart(document: Document, store: Store, width: number): HTMLElement | null {
  const { scenes } = document;
  const isOne = document.networks.length === 1;
  const nameOf = (scene: Scene) => (isOne ? scene.algorithm : `${scene.algorithm}, ${document.networks[scene.network].name}`);
  const sizes = [...new Set(scenes.map((scene) => scene.size_bytes))].sort((a, b) => a - b);
  const names = [...new Set(scenes.map(nameOf))];
  if (scenes.length < 3 || sizes.length < 2) return null;
  const theme = themeOf(store.state.theme);
  const host = make("section", { class: "chart" }, make("h3", {}, "Algorithms against size: click one to see its plan"));
  const sceneOf = (name: string, bytes: number) =>
    scenes.findIndex((scene) => nameOf(scene) === name && scene.size_bytes === bytes);
  const bandwidth = (name: string, bytes: number) => {
    const scene = scenes[sceneOf(name, bytes)];
    return scene && scene.time_s > 0 ? bytes / scene.time_s : null;
  };
  const bounds = sizes.map((bytes) => {
    const scene = document.networks.length === 1 && scenes.find((each) => each.size_bytes === bytes);
    return scene && scene.bound_s > 0 ? bytes / scene.bound_s : null;
  });
  const axis = { stroke: css(theme.ink), grid: { stroke: css(theme.faint), width: 1 }, ticks: { stroke: css(theme.faint) } };
  const options: uPlot.Options = {
    width, height: 240, cursor: { focus: { prox: 24 } }, legend: { live: false }, focus: { alpha: 0.35 },
    scales: { x: { time: false, distr: 3, log: 2 }, y: { range: (_, __, most) => [0, most * 1.06] } },
    axes: [
      { ...axis, values: (_, values) => values.map((value) => (value === null ? "" : size(value))), space: 60 },
      { ...axis, values: (_, values) => values.map(rate), size: 70 },
    ],
    series: [{ label: "size", value: (_, value) => (value === null ? "" : size(value)) }, ...names.map((label, at) => ({
      label, stroke: css(category(at, theme)), width: 2, points: { show: true, size: 8 },
      value: (_: uPlot, value: number | null) => (value === null ? "" : rate(value)),
    })), { label: "bound", stroke: css(theme.ink), dash: [4, 3], points: { show: false },
      value: (_: uPlot, value: number | null) => (value === null ? "" : rate(value)) }],
  };
  const lines = names.map((name) => sizes.map((bytes) => bandwidth(name, bytes)));
  const plot = only(new uPlot(options, [sizes, ...lines, bounds] as uPlot.AlignedData, host));
  plot.over.addEventListener("click", () => {
    const at = plot.cursor.idx;
    if (at === null || at === undefined) return;
    const scene = nearestScene(plot, names, lines, at, (name) => sceneOf(name, sizes[at]));
    if (scene >= 0) store.set(switchedTo([scene]));
  });
  return host;
}

function nearestScene(
  plot: uPlot, names: string[], lines: (number | null)[][], at: number, sceneOf: (name: string) => number,
): number {
  let best = -1;
  let least = Infinity;
  names.forEach((name, line) => {
    const value = lines[line][at];
    if (value === null) return;
    const far = Math.abs(plot.valToPos(value, "y") - (plot.cursor.top ?? 0));
    if (far < least) [best, least] = [sceneOf(name), far];
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
