// A drawing: segments and marks in columns, and labels. It is drawn on the GPU, on a canvas, or into an SVG.
//
// Positions are in units of the layout; a view turns them into pixels. Widths, sizes and shifts are in pixels.

import type { Rgb } from "../colours";

export interface Segments {
  count: number;
  /** Grows with each change, so that what is unchanged stays on the GPU. */
  version: number;
  /** Four numbers a segment: where it starts, and where it ends. */
  places: Float32Array;
  widths: Float32Array;
  /** How far a segment is moved to its right-hand side, so that both directions of a cable are seen. */
  shifts: Float32Array;
  /** Red, green, blue and opacity. */
  colours: Uint8Array;
}

export type Shape = 0 | 1 | 2 | 3 | 4;
export const DISC: Shape = 0;
export const SQUARE: Shape = 1;
/** Points along the segment at `towards`. */
export const ARROW: Shape = 2;
export const CIRCLE: Shape = 3;
export const DIAMOND: Shape = 4;

export interface Marks {
  count: number;
  version: number;
  /** Four numbers a mark: where it is, and where it points to. */
  places: Float32Array;
  sizes: Float32Array;
  shifts: Float32Array;
  shapes: Uint8Array;
  colours: Uint8Array;
}

export interface Label {
  x: number;
  y: number;
  text: string;
  /** How far to the right of the place its middle stands, and how far below. */
  right: number;
  below: number;
}

/** How the units of a layout become pixels: `pixel = unit * scale + move`. */
export interface View {
  scale: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The layers from the lowest to the highest. */
export interface Drawing {
  layers: ({ segments: Segments } | { marks: Marks })[];
  labels: Label[];
}

export function emptySegments(room: number): Segments {
  return {
    count: 0,
    version: 0,
    places: new Float32Array(4 * room),
    widths: new Float32Array(room),
    shifts: new Float32Array(room),
    colours: new Uint8Array(4 * room),
  };
}

export function emptyMarks(room: number): Marks {
  return {
    count: 0,
    version: 0,
    places: new Float32Array(4 * room),
    sizes: new Float32Array(room),
    shifts: new Float32Array(room),
    shapes: new Uint8Array(room),
    colours: new Uint8Array(4 * room),
  };
}

/** Empty a layer to fill it anew. */
export function restart(layer: Segments | Marks): void {
  layer.count = 0;
  layer.version++;
}

export function paint(colours: Uint8Array, at: number, colour: Rgb, alpha = 255): void {
  colours[4 * at] = colour[0];
  colours[4 * at + 1] = colour[1];
  colours[4 * at + 2] = colour[2];
  colours[4 * at + 3] = alpha;
}

export function addSegment(
  to: Segments,
  ends: ArrayLike<number>,
  look: { width: number; shift: number; colour: Rgb; alpha?: number },
): void {
  const at = to.count++;
  to.places.set(ends, 4 * at);
  to.widths[at] = look.width;
  to.shifts[at] = look.shift;
  paint(to.colours, at, look.colour, look.alpha);
}

export function addMark(
  to: Marks,
  place: ArrayLike<number>,
  look: { size: number; shape: Shape; colour: Rgb; alpha?: number; shift?: number },
): void {
  const at = to.count++;
  to.places.set(place, 4 * at);
  to.sizes[at] = look.size;
  to.shifts[at] = look.shift ?? 0;
  to.shapes[at] = look.shape;
  paint(to.colours, at, look.colour, look.alpha);
}

/** Return the ends of a segment in pixels, moved to its side. */
export function pixels(segments: Segments | Marks, at: number, view: View): [number, number, number, number] {
  const [x0, y0, x1, y1] = segments.places.subarray(4 * at, 4 * at + 4);
  const ends = [x0 * view.scale + view.x, y0 * view.scale + view.y, x1 * view.scale + view.x, y1 * view.scale + view.y];
  const [dx, dy] = [ends[2] - ends[0], ends[3] - ends[1]];
  const length = Math.hypot(dx, dy) || 1;
  const [sx, sy] = [(-dy / length) * segments.shifts[at], (dx / length) * segments.shifts[at]];
  return [ends[0] + sx, ends[1] + sy, ends[2] + sx, ends[3] + sy];
}
