// Draws with the browser's own canvas where there is no GPU.
import { css } from "../colours";
import { ARROW, CIRCLE, DIAMOND, pixels, SQUARE, type Drawing, type Marks, type Segments, type View } from "./drawing";
import type { Painter } from "./gl";

export function canvasPainter(canvas: HTMLCanvasElement): Painter {
  const context = canvas.getContext("2d", { alpha: false })!;
  const still = document.createElement("canvas");
  let drawn = "";
  return {
    isLost: () => false,
    draw(drawing, view, ratio, paper) {
      // The lowest layers, which are most of the picture, change only with the view: they are kept.
      const lower = drawing.layers.slice(0, KEPT);
      const key = JSON.stringify([view, ratio, paper, lower.map(versionOf)]);
      if (key !== drawn) {
        [still.width, still.height] = [canvas.width, canvas.height];
        const under = still.getContext("2d", { alpha: false })!;
        under.setTransform(ratio, 0, 0, ratio, 0, 0);
        under.fillStyle = css(paper);
        under.fillRect(0, 0, view.width, view.height);
        drawLayers(under, lower, view);
        drawn = key;
      }
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.drawImage(still, 0, 0);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      drawLayers(context, drawing.layers.slice(KEPT), view);
    },
    close() {},
  };
}

/** Coasts, links and trees. */
const KEPT = 3;

function versionOf(layer: Drawing["layers"][number]): number {
  return ("segments" in layer ? layer.segments : layer.marks).version;
}

function drawLayers(context: CanvasRenderingContext2D, layers: Drawing["layers"], view: View): void {
  for (const layer of layers) {
    if ("segments" in layer) drawSegments(context, layer.segments, view);
    else drawMarks(context, layer.marks, view);
  }
}

function colourAt(colours: Uint8Array, at: number): string {
  const [red, green, blue, alpha] = colours.subarray(4 * at, 4 * at + 4);
  return css([red, green, blue], alpha / 255);
}

function drawSegments(context: CanvasRenderingContext2D, segments: Segments, view: View): void {
  let look = "";
  for (let at = 0; at < segments.count; at++) {
    const colour = colourAt(segments.colours, at);
    const next = `${colour} ${segments.widths[at]}`;
    if (next !== look) {
      if (look) context.stroke();
      context.beginPath();
      context.strokeStyle = colour;
      context.lineWidth = segments.widths[at];
      look = next;
    }
    const [x0, y0, x1, y1] = pixels(segments, at, view);
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
  }
  if (look) context.stroke();
}

export function drawMarks(context: CanvasRenderingContext2D, marks: Marks, view: View): void {
  for (let at = 0; at < marks.count; at++) {
    const points = outline(marks, at, view);
    context.beginPath();
    if (points) {
      for (const [x, y] of points) context.lineTo(x, y);
      context.closePath();
    } else {
      const [x, y] = pixels(marks, at, view);
      context.arc(x, y, marks.sizes[at] / 2, 0, 2 * Math.PI);
    }
    if (marks.shapes[at] === CIRCLE) {
      context.strokeStyle = colourAt(marks.colours, at);
      context.lineWidth = 2.5;
      context.stroke();
    } else {
      context.fillStyle = colourAt(marks.colours, at);
      context.fill();
    }
  }
}

/** Return the corners of a square, a diamond or an arrow; null for what is round. */
export function outline(marks: Marks, at: number, view: View): [number, number][] | null {
  const [x, y, towardsX, towardsY] = pixels(marks, at, view);
  const half = marks.sizes[at] / 2;
  if (marks.shapes[at] === SQUARE) {
    const side = half * 0.88;
    return [[x - side, y - side], [x + side, y - side], [x + side, y + side], [x - side, y + side]];
  }
  if (marks.shapes[at] === DIAMOND) return [[x - half, y], [x, y - half], [x + half, y], [x, y + half]];
  if (marks.shapes[at] !== ARROW) return null;
  const length = Math.hypot(towardsX - x, towardsY - y) || 1;
  const [ax, ay] = [(towardsX - x) / length, (towardsY - y) / length];
  const corner = (along: number, aside: number): [number, number] =>
    [x + half * (ax * along - ay * aside), y + half * (ay * along + ax * aside)];
  return [corner(1, 0), corner(-0.8, 0.8), corner(-0.8, -0.8)];
}
