// Where nodes and links are in the plane: layouts projected, maps by Mercator, three dimensions as they are turned.
import { geoMercator, geoPath } from "d3-geo";

import type { Columns } from "../data/columns";
import type { Network } from "../data/format";

export interface Turn {
  yaw: number;
  pitch: number;
}

export interface Places {
  /** Two numbers a node. */
  nodes: Float32Array;
  /** What the picture has room for besides: the nodes of a network of which this one is left. */
  frame: Float32Array;
  /** Four numbers a segment: a link has one, two stubs where it leaves the picture, or several where it is bent. */
  segments: Float32Array;
  /** The first segment of each link, and the count of all. */
  starts: Uint32Array;
  /** The lines of coasts as segments of four numbers. */
  coasts: Float32Array;
  /** The distance between two linked nodes that are near each other, in units. */
  spacing: number;
  /** The distance between two nodes that are near each other, where it is known whether they may cover each other. */
  apart: number;
  /** The length of all links, and the area around them. */
  length: number;
  area: number;
}

export function placesOf(network: Network, columns: Columns, turn: Turn): Places {
  const positions = columns.positions as Float32Array;
  const others = columns.frame as Float32Array;
  const project = network.layout === "map" ? onMap(network, others.length ? others : positions) : turned(network, turn);
  const [nodes, frame] = [projected(positions, project), projected(others, project)];
  const { segments, starts, spacing } = segmentsOf(nodes, columns, project.way);
  const [left, top, right, bottom] = extentOf(nodes, segments);
  const area = Math.max(right - left, spacing) * Math.max(bottom - top, spacing);
  // Sites of one city, and nodes behind each other, do cover each other.
  const apart = ["map", "space"].includes(network.layout) ? Infinity : apartIn(nodes);
  return { nodes, frame, segments, starts, coasts: project.coasts, spacing, apart, length: lengthOf(segments), area };
}

function projected(positions: Float32Array, { place }: Projection): Float32Array {
  const count = positions.length / 3;
  return Float32Array.from(
    Array.from({ length: count }, (_, at) => place(positions.subarray(3 * at, 3 * at + 3))).flat());
}

function segmentsOf(nodes: Float32Array, columns: Columns, way: Projection["way"]) {
  const segments: number[] = [];
  const starts = new Uint32Array(columns.source.length + 1);
  const lengths: number[] = [];
  for (let link = 0; link < columns.source.length; link++) {
    const [source, target] = [columns.source[link], columns.target[link]];
    const ends = [nodes[2 * source], nodes[2 * source + 1], nodes[2 * target], nodes[2 * target + 1]];
    const stub = columns.stub.subarray(3 * link, 3 * link + 3);
    const far = Math.hypot(ends[2] - ends[0], ends[3] - ends[1]);
    const isStub = Boolean(stub[0] || stub[1] || stub[2]);
    if (isStub) segments.push(...stubs(ends, way(stub)));
    else if (columns.bend[link]) segments.push(...bent(ends, columns.bend[link]));
    else segments.push(...ends);
    if (!isStub && far > 0) lengths.push(far);
    starts[link + 1] = segments.length / 4;
  }
  // Not the least: two sites of one city would make all nodes tiny.
  const spacing = lengths.sort((a, b) => a - b)[Math.floor(lengths.length / 20)] ?? 1;
  return { segments: Float32Array.from(segments), starts, spacing };
}

/** How many nodes to the right of each one are looked at. */
const LOOKED_AT = 8;

/** Return how near nodes come to each other: of all but a twentieth, the least distance to one of the next nodes. */
function apartIn(nodes: Float32Array): number {
  const order = Uint32Array.from({ length: nodes.length / 2 }, (_, node) => node);
  order.sort((a, b) => nodes[2 * a] - nodes[2 * b] || nodes[2 * a + 1] - nodes[2 * b + 1]);
  const distances: number[] = [];
  for (let at = 0; at + 1 < order.length; at++) {
    const next = Array.from(order.subarray(at + 1, at + 1 + LOOKED_AT));
    const far = (node: number) => Math.hypot(
      nodes[2 * node] - nodes[2 * order[at]], nodes[2 * node + 1] - nodes[2 * order[at] + 1]);
    distances.push(Math.min(...next.map(far)));
  }
  return distances.sort((a, b) => a - b)[Math.floor(distances.length / 20)] ?? Infinity;
}

function stubs([x0, y0, x1, y1]: number[], [dx, dy]: [number, number]): number[] {
  return [x0, y0, x0 + dx, y0 + dy, x1 - dx, y1 - dy, x1, y1];
}

const PIECES = 10;

/** Return the pieces of a curve whose middle is moved to the left by a share of its length, where up is up. */
function bent([x0, y0, x1, y1]: number[], bend: number): number[] {
  // Pixels count downwards, so the left of a direction is at (dy, -dx).
  const [cx, cy] = [(x0 + x1) / 2 + 2 * bend * (y1 - y0), (y0 + y1) / 2 - 2 * bend * (x1 - x0)];
  const at = (part: number, a: number, c: number, b: number) =>
    (1 - part) ** 2 * a + 2 * part * (1 - part) * c + part ** 2 * b;
  const pieces: number[] = [];
  for (let piece = 0; piece < PIECES; piece++) {
    for (const part of [piece / PIECES, (piece + 1) / PIECES]) pieces.push(at(part, x0, cx, x1), at(part, y0, cy, y1));
  }
  return pieces;
}

interface Projection {
  place: (position: ArrayLike<number>) => [number, number];
  way: (vector: ArrayLike<number>) => [number, number];
  coasts: Float32Array;
}

function turned(network: Network, turn: Turn): Projection {
  const flat = network.layout !== "space";
  const [cosYaw, sinYaw] = [Math.cos(turn.yaw), Math.sin(turn.yaw)];
  const [cosPitch, sinPitch] = [Math.cos(turn.pitch), Math.sin(turn.pitch)];
  const way = (at: ArrayLike<number>): [number, number] => {
    if (flat) return [at[0], -at[1]];
    const x = at[0] * cosYaw + at[2] * sinYaw;
    const depth = at[2] * cosYaw - at[0] * sinYaw;
    return [x, -(at[1] * cosPitch - depth * sinPitch)];
  };
  return { way, place: way, coasts: new Float32Array(0) };
}

function onMap(network: Network, positions: Float32Array): Projection {
  const longitudes = Array.from(positions.filter((_, at) => at % 3 === 0));
  const mercator = geoMercator().rotate([-middle(longitudes), 0]).scale(57.3).translate([0, 0]);
  const segments: number[] = [];
  let at: [number, number] = [0, 0];
  const collector = {
    beginPath() {},
    closePath() {},
    arc() {},
    moveTo(x: number, y: number) {
      at = [x, y];
    },
    lineTo(x: number, y: number) {
      segments.push(...at, x, y);
      at = [x, y];
    },
  };
  const lines = network.coasts.map((line) => pairs(line));
  geoPath(mercator, collector)({ type: "MultiLineString", coordinates: lines });
  return {
    place: (position) => mercator([position[0], position[1]]) ?? [0, 0],
    way: (vector) => [vector[0], -vector[1]],
    coasts: Float32Array.from(segments),
  };
}

function pairs(line: number[]): [number, number][] {
  return Array.from({ length: line.length / 2 }, (_, at) => [line[2 * at], line[2 * at + 1]]);
}

/** Return the longitude opposite the widest gap, so that no link crosses the edge of the map if it can be avoided. */
function middle(longitudes: number[]): number {
  const sorted = longitudes.toSorted((a, b) => a - b);
  const [first, last] = [sorted[0], sorted[sorted.length - 1]];
  let best = { gap: first + 360 - last, centre: (first + last) / 2 };
  for (let at = 1; at < sorted.length; at++) {
    const gap = sorted[at] - sorted[at - 1];
    if (gap > best.gap) best = { gap, centre: (sorted[at] + sorted[at - 1]) / 2 + 180 };
  }
  return best.centre;
}

/** Return the smallest rectangle around points of two numbers: its left, top, right and bottom. */
export function extentOf(...all: Float32Array[]): [number, number, number, number] {
  const extent: [number, number, number, number] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const points of all) {
    for (let at = 0; at < points.length; at += 2) {
      extent[0] = Math.min(extent[0], points[at]);
      extent[1] = Math.min(extent[1], points[at + 1]);
      extent[2] = Math.max(extent[2], points[at]);
      extent[3] = Math.max(extent[3], points[at + 1]);
    }
  }
  return extent;
}

function lengthOf(segments: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < segments.length; at += 4) {
    sum += Math.hypot(segments[at + 2] - segments[at], segments[at + 3] - segments[at + 1]);
  }
  return sum;
}
