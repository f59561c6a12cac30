// Says below the picture what its colours and shapes mean.
import { category, css, heat, themeOf, type Rgb, type Theme } from "../colours";
import { seriesOf } from "../looks";
import { treesOf, type Model } from "../model";
import { drawMarks } from "../picture/canvas";
import { addMark, ARROW, CIRCLE, emptyMarks, SQUARE, type Shape } from "../picture/drawing";
import { SHAPES } from "../picture/network";
import type { Selected, State, Store } from "../state";
import { amount, rate, share } from "../units";
import { make } from "./elements";
import { shortList } from "./controls";

export function showLegend(host: HTMLElement, store: Store, models: Model[]): void {
  const { state } = store;
  const series = models.map((model) => seriesOf(model, state)).find(Boolean);
  const text = textOf(state, models);
  const colours = make("span", {}, text);
  const ends = series ? ["0", amount(series.largest, series.unit)] : scaleOf(state, models);
  if (ends && !isTreeSelected(state)) colours.append(make("span", { class: "scale" }, ends[0], scale(state), ends[1]));
  const theme = themeOf(state.theme);
  const entries = [...nodesOf(models, theme), ...(text.endsWith(HALVES) ? [] : transfersOf(models, state, theme))];
  host.replaceChildren(colours, ...treesIn(store, models, theme), ...entries.map(([shape, colour, text]) =>
    make("span", { class: "mark" }, mark(shape, colour), text)));
}

/** Of so many trees the legend has the colours, which come again after that. */
const MOST_TREES = 7;

/** Return the colours of the chosen trees, which can be pointed at and selected. */
function treesIn(store: Store, models: Model[], theme: Theme): HTMLElement[] {
  const found = models.map((model) => (store.state.trees && treesOf(model, store.state)) || []);
  const all = [...new Set(found.flat())];
  const hasColours = store.state.colour === "tree" || all.length > 1;
  if (!hasColours || all.length > MOST_TREES || COLOURS_OF_STEPS.includes(store.state.colour)) return [];
  return all.map((at) => {
    const thing = { kind: "tree" as const, at, pane: found.findIndex((trees) => trees.includes(at)) };
    return make("span", { class: "mark", "data-tree": at,
      pointermove: (event) => pointAt(store, thing, event as PointerEvent),
      pointerleave: () => store.set({ pointed: null }),
      click: () => store.set({ selected: thing, pointed: null }),
    }, mark(SQUARE, category(at, theme)), `tree ${at}`);
  });
}

function pointAt(store: Store, thing: Selected, { clientX: x, clientY: y }: PointerEvent): void {
  store.set({ pointed: { ...thing, x, y } });
}

type Entry = [shape: Shape, colour: Rgb, text: string];

/** Return what the shapes of nodes mean, for those that there are. */
function nodesOf(models: Model[], theme: Theme): Entry[] {
  const kinds = new Set(models.flatMap((model) => model.network.kinds));
  const entries: Entry[] = [];
  if (kinds.has("accelerator")) entries.push([SHAPES.accelerator, theme.accelerator, "accelerator"]);
  if (kinds.has("switch")) entries.push([SHAPES.switch, theme.switch, "switch"]);
  if (kinds.has("reducing switch")) entries.push([SHAPES["reducing switch"], theme.switch, "switch that reduces"]);
  if (models.some((model) => model.network.guessed.length)) entries.push([CIRCLE, theme.accelerator, "place guessed"]);
  return entries;
}

/** Return what the bars below and what moves mean, as far as the colours above do not say it. */
function transfersOf(models: Model[], state: State, theme: Theme): Entry[] {
  const entries: Entry[] = [];
  if (!COLOURS_OF_TRANSFERS.includes(state.colour) && !hasSeveralTrees(models, state)) {
    const halves = [["rows: towards a root", 0], ["from a root", 1]] as const;
    for (const [half, colour] of halves) entries.push([SQUARE, category(colour, theme), half]);
    if (state.time > 0 || state.playing) entries.push([ARROW, theme.ink, "transfer under way"]);
  }
  if (state.path) entries.push([SQUARE, theme.accent, "critical path"]);
  if (state.colour === "failures" && models.some((model) => model.findings?.costs.hasCuts)) {
    entries.push([SQUARE, theme.limit, "nothing can be sent"]);
  }
  return entries;
}

/** Tell whether several trees are chosen, which then have a colour each. */
function hasSeveralTrees(models: Model[], state: State): boolean {
  return Boolean(state.trees) && models.some((model) => (treesOf(model, state) ?? []).length > 1);
}

/** Draw a mark as the picture has it. */
function mark(shape: Shape, colour: Rgb): HTMLCanvasElement {
  const side = 14;
  const canvas = make("canvas", { width: side * devicePixelRatio, height: side * devicePixelRatio });
  const context = canvas.getContext("2d")!;
  const marks = emptyMarks(1);
  addMark(marks, [0, 0, 1, 0], { size: 10, shape, colour });
  context.scale(devicePixelRatio, devicePixelRatio);
  drawMarks(context, marks, { scale: 1, x: side / 2, y: side / 2, width: side, height: side });
  return canvas;
}

const COLOURS_OF_STEPS = ["step", "chunk"];
const COLOURS_OF_TRANSFERS = ["tree", ...COLOURS_OF_STEPS];

/** Tell whether a tree is drawn since it is selected, and not chosen among others. */
function isTreeSelected({ selected, trees }: State): boolean {
  return selected?.kind === "tree" && !trees;
}

const HALVES = "blue towards the root, orange from it";

function textOf(state: State, models: Model[]): string {
  const isOther = COLOURS_OF_TRANSFERS.includes(state.colour);
  if (isTreeSelected(state) && !isOther) return `Tree ${state.selected!.at}: ${HALVES}`;
  const series = models.map((model) => seriesOf(model, state)).find(Boolean);
  if (series) return `Colour: ${series.title}, at the moment`;
  if (state.colour === "limit") return limitOf(models);
  if (state.colour === "worth") return "Colour: by how much 10 % more of a link raises the best possible rate";
  if (state.colour === "failures") return "Colour: how much longer the plan takes without a link or a node";
  const named = `${typeof state.trees === "string" ? "the trees of the root" : "trees"} ${shortList(state.trees)}`;
  const moves = state.trees ? named : "what moves";
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
        return `Shown are ${named}: ${isOne ? HALVES : "a colour for each"}`;
      }
      return `Colour: how much of the time${state.window ? " chosen below" : ""} a link is busy`;
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
  return ["1 ×", `${findings.costs.largest.toFixed(2)} ×`];
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
