// The names of nodes beside them: which text, which of them fit, and how they are drawn.
import { css, type Rgb } from "../colours";
import type { Model } from "../model";
import type { Label, View } from "./drawing";
import type { Places } from "./places";

/** Return the names of nodes; where they would be too long, without what all names begin with. */
export function labelsOf(model: Model, places: Places, size: number, scale: number): Label[] {
  const names = model.network.nodes;
  const longest = Math.max(...names.slice(0, 2000).map((name) => name.length));
  const isTight = 6.8 * longest + 20 > places.spacing * scale; // what `fittingLabels` keeps free
  // The links of a grid go down and across: what stands in the corner between them lies over none.
  const isGrid = model.network.layout === "grid";
  return names.map((name, node) => {
    const text = isTight ? shortened(name) : name;
    const [x, y] = places.nodes.subarray(2 * node, 2 * node + 2);
    const right = isGrid ? size / 2 + widthOf(text) / 2 : 0;
    return { x, y, text, right, below: size / 2 + (isGrid ? 6 : 8) };
  });
}

/** Return about how wide a name is, in pixels. */
function widthOf(text: string): number {
  return 6.8 * Math.min(text.length, MOST_LETTERS);
}

const MOST_LETTERS = 24;

/** Return the number at the end of a name such as GPU12, and other names as they are. */
function shortened(name: string): string {
  return /^\D{1,6}(\d+)$/.exec(name)?.[1] ?? name;
}

/** Return those labels that fit: in the picture, and not over another. */
export function fittingLabels(labels: Label[], view: View): Label[] {
  const taken = new Set<string>();
  const fitting: Label[] = [];
  for (const label of labels) {
    const cells = cellsOf(label, view);
    if (!cells.length || cells.some((cell) => taken.has(cell))) continue;
    for (const cell of cells) taken.add(cell);
    fitting.push(label);
  }
  return fitting;
}

/** Return the cells of the picture that a label covers; none if it is outside. */
function cellsOf(label: Label, view: View): string[] {
  const [x, y] = placeOf(label, view);
  const half = widthOf(label.text) / 2 + 4;
  if (x + half < 0 || y < 0 || x - half > view.width || y > view.height) return [];
  const lines = [-6, 0, 6].map((shift) => Math.floor((y + shift) / 7));
  const cells: string[] = [];
  for (let column = Math.floor((x - half) / 12); column <= Math.floor((x + half) / 12); column++) {
    for (const line of lines) cells.push(`${column} ${line}`);
  }
  return cells;
}

/** Return where the middle of a label is, in pixels. */
export function placeOf(label: Label, view: View): [number, number] {
  return [label.x * view.scale + view.x + label.right, label.y * view.scale + view.y + label.below];
}

/** Return a name as it is drawn: not longer than a line of the picture can bear. */
export function shortLabel(text: string): string {
  return text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text;
}

interface Look {
  ink: Rgb;
  paper: Rgb;
}

export function drawLabels(canvas: HTMLCanvasElement, labels: Label[], view: View, ratio: number, look: Look): void {
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 4;
  context.strokeStyle = css(look.paper, 0.9);
  context.fillStyle = css(look.ink);
  for (const label of fittingLabels(labels, view)) {
    const [x, y] = placeOf(label, view);
    const text = shortLabel(label.text);
    context.strokeText(text, x, y);
    context.fillText(text, x, y);
  }
}
