// Says below the picture what its colours mean.
import { css, heat, themeOf } from "../colours";
import { seriesOf } from "../looks";
import { treesOf, type Model } from "../model";
import type { State } from "../state";
import { amount, rate, share } from "../units";
import { make } from "./elements";
import { shortList } from "./controls";

export function showLegend(host: HTMLElement, state: State, models: Model[]): void {
  host.querySelector(".legend")?.remove();
  const series = models.map((model) => seriesOf(model, state)).find(Boolean);
  const legend = make("div", { class: "legend" }, textOf(state, models));
  const ends = series ? ["0", amount(series.largest, series.unit)] : scaleOf(state, models);
  if (ends) legend.append(make("span", { class: "scale" }, ends[0], scale(state), ends[1]));
  host.append(legend);
}

function textOf(state: State, models: Model[]): string {
  const series = models.map((model) => seriesOf(model, state)).find(Boolean);
  if (series) return `Colour: ${series.title}, at the moment`;
  if (state.colour === "limit") return limitOf(models);
  if (state.colour === "worth") return "Colour: by how much 10 % more of a link raises what all reach";
  if (state.colour === "failures") return "Colour: how much longer the plan takes without a link or a node";
  const named = `${typeof state.trees === "string" ? "the trees of the root" : "trees"} ${shortList(state.trees)}`;
  const moves = state.trees ? named : "what moves";
  const halves = "blue towards the root, orange from it";
  switch (state.colour) {
    case "tree":
      return `Colour: the tree of ${moves}`;
    case "step":
      return `Colour: the step of ${moves}, from the first (dark) to the last`;
    case "chunk":
      return `Colour: the chunk of what moves, from the first (dark) to the last`;
    default: {
      if (state.trees) {
        const isOne = models.every((model) => treesOf(model, state)!.length === 1);
        return `Shown are ${named}: ${isOne ? halves : "a colour for each"}`;
      }
      return `Colour: the share of the time${state.window ? " chosen below" : ""} in which a link carries something`;
    }
  }
}

/** Return what the ends of the scale of colours mean; nothing if colours have no scale. */
function scaleOf(state: State, models: Model[]): [string, string] | null {
  if (state.trees) return null;
  const findings = models.map((model) => model.findings).find(Boolean);
  if (state.colour === "busy") return ["0", "100 %"];
  if (findings && state.colour === "worth") return ["0", `+${share(findings.largestGain)}`];
  if (!findings || state.colour !== "failures") return null;
  const { links, nodes, largest } = findings.costs;
  const isCut = [...links, ...nodes].includes(Infinity);
  return ["1 ×", isCut ? "cut" : `${largest.toFixed(2)} ×`];
}

function limitOf(models: Model[]): string {
  const [scene] = models.map((model) => model.scene);
  if (!scene.limit_rate_Bps || !scene.limit_links.length) return "No links limit plans on this network";
  return `These links let no plan exceed ${rate(scene.limit_rate_Bps)}`;
}

function scale(state: State): HTMLCanvasElement {
  const canvas = make("canvas", { width: 90, height: 10 });
  const context = canvas.getContext("2d")!;
  for (let x = 0; x < 90; x++) {
    context.fillStyle = css(heat(x / 89, themeOf(state.theme)));
    context.fillRect(x, 0, 1, 10);
  }
  return canvas;
}
