// The names of nodes beside them: which text, which of them fit, and how they are drawn.
import { range } from "d3-array";

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

/** Return those labels that fit: in the picture, and neither over another nor over the node of another. */
export function fittingLabels(labels: Label[], view: View): Label[] {
  const taken = new Map(labels.map((label) => [cellOf(...nodeOf(label, view)), label]));
  const fitting: Label[] = [];
  for (const label of labels) {
    const cells = cellsOf(label, view);
    if (!cells.length || cells.some((cell) => (taken.get(cell) ?? label) !== label)) continue;
    for (const cell of cells) taken.set(cell, label);
    fitting.push(label);
  }
  return fitting;
}

/** Return the cell of the picture in which a pixel lies. */
function cellOf(x: number, y: number): string {
  return `${Math.floor(x / 12)} ${Math.floor(y / 7)}`;
}

/** Return the cells of the picture that a label covers; none if it is outside. */
function cellsOf(label: Label, view: View): string[] {
  const [x, y] = placeOf(label, view);
  const half = widthOf(label.text) / 2 + 4;
  if (x + half < 0 || y < 0 || x - half > view.width || y > view.height) return [];
  const columns = range(Math.floor((x - half) / 12), Math.floor((x + half) / 12) + 1);
  return columns.flatMap((column) => [-6, 0, 6].map((shift) => cellOf(12 * column, y + shift)));
}

/** Return where the middle of a label is, in pixels. */
export function placeOf(label: Label, view: View): [number, number] {
  const [x, y] = nodeOf(label, view);
  return [x + label.right, y + label.below];
}

/** Return where the node of a label is, in pixels. */
function nodeOf({ x, y }: Label, view: View): [number, number] {
  return [x * view.scale + view.x, y * view.scale + view.y];
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
