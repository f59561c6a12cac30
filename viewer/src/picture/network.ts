// The layers of a network's picture: coasts, links, trees, what moves at the moment, nodes, and what is selected.
import type { Rgb, Theme } from "../colours";
import type { Column } from "../data/columns";
import { NONE, startedBy } from "../data/transfers";
import { edgeColour, isOfNetwork, linkColour, nodeColour, transferColour } from "../looks";
import { edgesShown, laneOf, treesOf, type Model } from "../model";
import type { Selected, State } from "../state";
import { edgesOf } from "../tree";
import * as drawing from "./drawing";
import type { Places } from "./places";

/** What the picture of one scene is made of: layers that are filled again when something changes. */
export interface Layers {
  coasts: drawing.Segments;
  links: drawing.Segments;
  trees: drawing.Segments;
  /** The tree of each of its segments. */
  treeOf: number[];
  arrows: drawing.Marks;
  moving: drawing.Segments;
  messages: drawing.Marks;
  path: drawing.Segments;
  nodes: drawing.Marks;
  picked: drawing.Marks;
  pickedLinks: drawing.Segments;
}

export function layersFor(model: Model, places: Places): Layers {
  const nodes = model.network.nodes.length;
  return {
    coasts: drawing.emptySegments(places.coasts.length / 4),
    links: drawing.emptySegments(places.segments.length / 4),
    trees: drawing.emptySegments(64),
    treeOf: [],
    arrows: drawing.emptyMarks(64),
    moving: drawing.emptySegments(256),
    messages: drawing.emptyMarks(256),
    path: drawing.emptySegments(64),
    nodes: drawing.emptyMarks(nodes),
    picked: drawing.emptyMarks(4),
    pickedLinks: drawing.emptySegments(4),
  };
}

export function layersOf(layers: Layers): drawing.Drawing["layers"] {
  return [
    { segments: layers.coasts },
    { segments: layers.links },
    { segments: layers.trees },
    { segments: layers.moving },
    { segments: layers.path },
    { segments: layers.pickedLinks },
    { marks: layers.arrows },
    { marks: layers.messages },
    { marks: layers.nodes },
    { marks: layers.picked },
  ];
}

/** What layers are filled from. */
interface Filling {
  model: Model;
  places: Places;
  sizes: Sizes;
  state: State;
  theme: Theme;
}

/** Sizes in pixels, which grow as one zooms in. */
export interface Sizes {
  node: number;
  link: number;
}

/** The most of the picture that links may cover, as far as their width decides. */
const COVER = 0.22;

export function sizesAt(places: Places, scale: number): Sizes {
  const pixels = places.spacing * scale;
  const thin = (COVER * places.area * scale) / Math.max(places.length, 1e-9);
  const room = Math.min(pixels * 0.26, places.apart * scale * 0.8);
  return { node: clamp(room, 3, 20), link: clamp(Math.min(pixels * 0.08, thin), 0.7, 6) };
}

export function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}

function linkWidth(model: Model, link: number, sizes: Sizes): number {
  return sizes.link * clamp(Math.sqrt(model.net.bandwidth_Bps[link] / model.widest_Bps), 0.3, 1);
}

function shiftOf(model: Model, link: number, sizes: Sizes): number {
  return linkWidth(model, link, sizes) / 2 + 0.15 * sizes.link + 0.4;
}

/** Return the segments of a link, as places of four numbers. */
function* segmentsOf(places: Places, link: number): Generator<Float32Array> {
  const { starts, segments } = places;
  for (let at = starts[link]; at < starts[link + 1]; at++) yield segments.subarray(4 * at, 4 * at + 4);
}

export function fillCoasts(layer: drawing.Segments, { places, theme }: Filling): void {
  drawing.restart(layer);
  for (let at = 0; at < places.coasts.length; at += 4) {
    drawing.addSegment(layer, places.coasts.subarray(at, at + 4), { width: 1, shift: 0, colour: theme.faint });
  }
}

/** Fill in the links: their places, widths and colours. */
export function fillLinks(layer: drawing.Segments, { model, places, sizes }: Filling): void {
  drawing.restart(layer);
  for (let link = 0; link < model.net.source.length; link++) {
    const [width, shift] = [linkWidth(model, link, sizes), shiftOf(model, link, sizes)];
    for (const ends of segmentsOf(places, link)) drawing.addSegment(layer, ends, { width, shift, colour: [0, 0, 0] });
  }
}

/**
 * Colour the links anew, which stand in the order of `fillLinks`; those that limit every plan are wider, and all are
 * faint under a tree that is marked.
 */
export function colourLinks(layer: drawing.Segments, filling: Filling, marked: number | null): void {
  const { model, places, sizes, state, theme } = filling;
  let at = 0;
  layer.version++;
  for (let link = 0; link < model.net.source.length; link++) {
    const colour = marked === null ? linkColour(model, state, theme, link) : theme.faint;
    const width = linkWidth(model, link, sizes);
    const isLimit = state.colour === "limit" && model.limit.has(link);
    for (const _ of segmentsOf(places, link)) {
      layer.widths[at] = isLimit ? Math.max(1.5 * width, 3.5) : width;
      drawing.paint(layer.colours, at++, colour);
    }
  }
}

export function fillNodes(layer: drawing.Marks, { model, places, sizes, state, theme }: Filling): void {
  drawing.restart(layer);
  const guessed = new Set(model.network.guessed);
  for (let node = 0; node < model.network.nodes.length; node++) {
    const shape = guessed.has(node) ? drawing.CIRCLE : SHAPES[model.network.kinds[node]];
    const [x, y] = places.nodes.subarray(2 * node, 2 * node + 2);
    drawing.addMark(layer, [x, y, x, y], { size: sizes.node, shape, colour: nodeColour(model, state, theme, node) });
  }
}

/** The shapes of nodes; the place of one that is a circle is guessed. */
export const SHAPES = {
  accelerator: drawing.DISC,
  switch: drawing.SQUARE,
  "reducing switch": drawing.DIAMOND,
} as const;

/** Of so many trees each has a line of its own. */
const MOST_BESIDE = 12;

/**
 * Fill in the chosen trees: each edge over its route, with an arrow; trees on one link lie side by side. A tree that is
 * marked is drawn in any case, and stronger than the others.
 */
export function fillTrees(layers: Layers, filling: Filling, marked: number | null): void {
  const { model, state, theme } = filling;
  const isMany = (treesOf(model, state)?.length ?? 0) > MOST_BESIDE;
  const { lanes, edges } = model.transfers;
  drawing.restart(layers.trees);
  drawing.restart(layers.arrows);
  layers.treeOf = [];
  const onLink = new Map<number, number>();
  for (const edge of drawnEdges(model, state, marked)) {
    const tree = edges.tree[edge];
    const alpha = marked === null || marked === tree ? 255 : FAINT;
    const look = { colour: edgeColour(model, state, theme, edge), alpha, tree: isMany ? -1 : tree };
    for (const link of routeOf(lanes, edges.lane[edge])) {
      const before = onLink.get(link) ?? 0;
      onLink.set(link, before + 1);
      // So many trees would not fit beside each other: one line stands for all, and the marked one goes over it.
      if (!isMany || !before || marked === tree) addTreeLink(layers, filling, link, isMany ? 0 : before, look);
    }
  }
}

/** How strong trees are drawn beside a marked one. */
const FAINT = 55;

/** Return the edges of the chosen trees, then those of the marked one if it is not among them. */
function drawnEdges(model: Model, state: State, marked: number | null): number[] {
  const shown = state.trees ? edgesShown(model, state) : [];
  const isShown = marked === null || (state.trees && (treesOf(model, state) ?? []).includes(marked));
  return isShown ? shown : [...shown, ...edgesOf(model, marked)];
}

interface TreeLook {
  colour: Rgb;
  alpha: number;
  /** Which tree it is, or -1 for several. */
  tree: number;
}

/** Add a tree's use of a link, beside those that are there before. */
function addTreeLink(layers: Layers, filling: Filling, link: number, before: number, look: TreeLook): void {
  const { model, places, sizes } = filling;
  const { colour, alpha, tree } = look;
  const width = Math.max(linkWidth(model, link, sizes), 1.6);
  const shift = shiftOf(model, link, sizes) + before * width * 1.15;
  for (const ends of segmentsOf(places, link)) {
    layers.trees = grown(layers.trees);
    drawing.addSegment(layers.trees, ends, { width, shift, colour, alpha });
    layers.treeOf.push(tree);
  }
  const [middle, part] = middleOf(places, link);
  layers.arrows = grownMarks(layers.arrows);
  const arrow = { size: width * 3 + 4, shape: drawing.ARROW, colour, alpha, shift };
  drawing.addMark(layers.arrows, along(middle, part), arrow);
}

function routeOf(lanes: { start: Column; links: Column }, lane: number): Column {
  return lanes.links.subarray(lanes.start[lane], lanes.start[lane + 1]);
}

/** Return the segment of a link where an arrow stands, and the part of it. */
function middleOf(places: Places, link: number): [Float32Array, number] {
  const all = [...segmentsOf(places, link)];
  const place = 0.62 * all.length;
  const at = Math.min(Math.floor(place), all.length - 1);
  return all.length === 2 ? [all[0], 0.75] : [all[at], place - at];
}

function along(ends: ArrayLike<number>, part: number): [number, number, number, number] {
  const x = ends[0] + (ends[2] - ends[0]) * part;
  const y = ends[1] + (ends[3] - ends[1]) * part;
  return [x, y, x + (ends[2] - ends[0]), y + (ends[3] - ends[1])];
}

/** Messages of one lane that are under way at once; more would lie over each other. */
const MOST_UNDER_WAY = 6;

/** Call `each` with every transfer that is under way at a moment. */
function eachUnderWay(model: Model, moment: number, each: (transfer: number, lane: number) => void): void {
  const { transfers } = model;
  const { starts, items } = transfers.ofLane;
  for (let lane = 0; lane + 1 < starts.length; lane++) {
    if (starts[lane] === starts[lane + 1]) continue;
    const end = startedBy(transfers, lane, moment);
    for (let place = end - 1; place >= starts[lane] && end - place <= MOST_UNDER_WAY; place--) {
      if (transfers.received[items[place]] > moment) each(items[place], lane);
    }
  }
}

/** Fill in what moves: the links that messages occupy, and an arrow for how far each one has come. */
export function fillMoving(layers: Layers, filling: Filling, mask: Uint8Array): void {
  const { model, state, theme } = filling;
  drawing.restart(layers.moving);
  drawing.restart(layers.messages);
  if (!state.time && !state.playing) return;
  const isHeat = isOfNetwork(state.colour);
  eachUnderWay(model, state.time, (transfer, lane) => {
    if (!mask[transfer]) return;
    const colour = isHeat ? theme.ink : transferColour(model, state, theme, transfer);
    if (!isHeat && state.time < model.transfers.sent[transfer]) occupy(layers, filling, lane, colour);
    addMessage(layers, filling, transfer, lane, colour);
  });
}

/** Add the links of a lane in the colour of the message that they carry. */
function occupy(layers: Layers, { model, places, sizes }: Filling, lane: number, colour: Rgb): void {
  for (const link of routeOf(model.transfers.lanes, lane)) {
    const [width, shift] = [1.25 * linkWidth(model, link, sizes), shiftOf(model, link, sizes)];
    for (const ends of segmentsOf(places, link)) {
      layers.moving = grown(layers.moving);
      drawing.addSegment(layers.moving, ends, { width, shift, colour, alpha: 225 });
    }
  }
}

/** Add the arrow of a message where it is on its way. */
function addMessage(
  layers: Layers, { model, places, sizes, state }: Filling, transfer: number, lane: number, colour: Rgb,
): void {
  const { start, received, lanes } = model.transfers;
  const route = routeOf(lanes, lane);
  const done = (state.time - start[transfer]) / (received[transfer] - start[transfer] || 1);
  const hop = Math.min(Math.floor(done * route.length), route.length - 1);
  const parts = [...segmentsOf(places, route[hop])];
  const way = (done * route.length - hop) * parts.length;
  const at = Math.min(Math.floor(way), parts.length - 1);
  const shift = shiftOf(model, route[hop], sizes);
  const size = clamp(linkWidth(model, route[hop], sizes) * 2.6 + 3, 5, 18);
  layers.messages = grownMarks(layers.messages);
  drawing.addMark(layers.messages, along(parts[at], way - at), { size, shape: drawing.ARROW, colour, shift });
}

/** Fill in the lanes of the critical path, those that have begun stronger than those that come. */
export function fillPath(layers: Layers, { model, places, sizes, state, theme }: Filling): void {
  drawing.restart(layers.path);
  if (!state.path) return;
  const { transfers } = model;
  for (const transfer of transfers.path) {
    const alpha = transfers.start[transfer] <= state.time || state.time === 0 ? 255 : 70;
    for (const link of routeOf(transfers.lanes, laneOf(transfers, transfer))) {
      for (const ends of segmentsOf(places, link)) {
        layers.path = grown(layers.path);
        const shift = shiftOf(model, link, sizes);
        drawing.addSegment(layers.path, ends, { width: 1.5 + 0.3 * sizes.link, shift, colour: theme.accent, alpha });
      }
    }
  }
}

/** The nodes and links that are selected or under the pointer. */
export interface Picked {
  nodes: number[];
  links: number[];
}

/** Fill in what is selected or under the pointer. */
export function fillPicked(layers: Layers, { model, places, sizes, theme }: Filling, picked: Picked): void {
  const colour = theme.accent;
  drawing.restart(layers.picked);
  drawing.restart(layers.pickedLinks);
  for (const node of picked.nodes) {
    const [x, y] = places.nodes.subarray(2 * node, 2 * node + 2);
    layers.picked = grownMarks(layers.picked);
    drawing.addMark(layers.picked, [x, y, x, y], { size: sizes.node + 9, shape: drawing.CIRCLE, colour });
  }
  for (const link of picked.links) {
    const [width, shift] = [linkWidth(model, link, sizes) + 2.5, shiftOf(model, link, sizes)];
    for (const ends of segmentsOf(places, link)) {
      layers.pickedLinks = grown(layers.pickedLinks);
      drawing.addSegment(layers.pickedLinks, ends, { width, shift, colour });
    }
  }
}

/** Return the nodes and links that belong to a thing; none if the scene lacks it. */
export function pickedOf(model: Model, kind: Selected["kind"], at: number): Picked {
  const { lanes, trees, edge, count } = model.transfers;
  const isIn = (length: number) => at < length;
  switch (kind) {
    case "node":
      return { nodes: isIn(model.network.nodes.length) ? [at] : [], links: [] };
    case "link":
      return { nodes: [], links: isIn(model.net.source.length) ? [at] : [] };
    case "tree":
      return { nodes: isIn(trees.root.length) ? [trees.root[at]] : [], links: [] };
    case "transfer": {
      if (!isIn(count) || edge[at] === NONE) return { nodes: [], links: [] };
      const lane = laneOf(model.transfers, at);
      return { nodes: [lanes.source[lane], lanes.target[lane]], links: [...routeOf(lanes, lane)] };
    }
  }
}

function grown(layer: drawing.Segments): drawing.Segments {
  if (layer.count < layer.widths.length) return layer;
  const larger = drawing.emptySegments(2 * layer.count);
  for (const name of ["places", "widths", "shifts", "colours"] as const) larger[name].set(layer[name]);
  larger.count = layer.count;
  larger.version = layer.version;
  return larger;
}

function grownMarks(layer: drawing.Marks): drawing.Marks {
  if (layer.count < layer.sizes.length) return layer;
  const larger = drawing.emptyMarks(2 * layer.count);
  for (const name of ["places", "sizes", "shifts", "shapes", "colours"] as const) larger[name].set(layer[name]);
  larger.count = layer.count;
  larger.version = layer.version;
  return larger;
}

