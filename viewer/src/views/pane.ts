// A pane shows the picture of one scene: it draws when something has changed, and answers the pointer.
import { themeOf } from "../colours";
import { passing, type Model } from "../model";
import type { Drawing, View } from "../picture/drawing";
import { drawLabels } from "../picture/labels";
import * as network from "../picture/network";
import type { Camera, Selected, State, Store } from "../state";
import {
  cameraIn, labelsIn, leaveGpu, lookAs, markedIn, pictureIn, resize, sizesIn, viewIn, type Part, type Picture,
} from "./picture";
import { lookAtAll, listenToPointer, listenToZoom } from "./pointer";

export interface Pane {
  model: Model;
  /** Draw what has changed, or all of it; cheap if nothing has. */
  draw(all?: boolean): void;
  note(changed: Set<keyof State>): void;
  resize(): void;
  /** Show all of the network again, as at first. */
  refit(): void;
  drawing(): Drawing;
  view(): View;
  close(): void;
}

/** Put a picture into an element. */
export function paneIn(host: HTMLElement, model: Model, store: Store, pane: number): Pane {
  const picture = pictureIn(host, model, store, pane);
  const zooming = listenToZoom(picture);
  listenToPointer(picture);
  resize(picture);
  return {
    model,
    draw: (all = false) => draw(picture, all),
    note: (changed) => note(picture, changed),
    resize: () => resize(picture),
    refit: () => lookAtAll(picture),
    drawing: () => ({ layers: network.layersOf(picture.layers), labels: labelsIn(picture) }),
    view: () => viewIn(picture),
    close: () => {
      picture.painter.close();
      zooming.stop();
      host.replaceChildren();
    },
  };
}

function draw(picture: Picture, all: boolean): void {
  if (picture.painter.isLost()) leaveGpu(picture);
  const { stale, layers, painter, labels } = picture;
  if (!stale.size && !all) return;
  const theme = themeOf(picture.store.state.theme);
  refill(picture);
  const view = viewIn(picture);
  painter.draw({ layers: network.layersOf(layers), labels: [] }, view, devicePixelRatio, theme.paper);
  if (stale.has("places")) drawLabels(labels, labelsIn(picture), view, devicePixelRatio, theme);
  stale.clear();
}

/** Fill those layers again in which something has changed. */
function refill(picture: Picture): void {
  const { layers, places, model, mask } = picture;
  const { state } = picture.store;
  const filling = { model, places, sizes: sizesIn(picture), state, theme: themeOf(state.theme) };
  const tree = picture.marked.find((thing) => thing.kind === "tree")?.at ?? null;
  const has = (part: Part) => picture.stale.has("places") || picture.stale.has(part);
  if (has("places")) {
    network.fillCoasts(layers.coasts, filling);
    network.fillLinks(layers.links, filling);
  }
  if (has("links")) {
    network.colourLinks(layers.links, filling, tree);
    network.fillNodes(layers.nodes, filling);
  }
  if (has("path")) network.fillPath(layers, filling);
  if (has("trees")) network.fillTrees(layers, filling, tree);
  if (has("moving")) network.fillMoving(layers, filling, mask);
  if (has("picked")) network.fillPicked(layers, filling, pickedIn(picture));
}

/** Return the nodes and links that are selected or under the pointer. */
function pickedIn(picture: Picture): network.Picked {
  const picked = picture.marked.map((thing) => network.pickedOf(picture.model, thing.kind, thing.at));
  return { nodes: picked.flatMap((each) => each.nodes), links: picked.flatMap((each) => each.links) };
}

const FILTERS = ["trees", "half", "phase", "step"] as const;

function note(picture: Picture, changed: Set<keyof State>): void {
  const { state } = picture.store;
  const has = (...names: (keyof State)[]) => names.some((name) => changed.has(name));
  const mark = (part: Part, isStale: boolean) => isStale && picture.stale.add(part);
  if (has(...FILTERS)) picture.mask = passing(picture.model, state);
  mark("places", has("theme"));
  mark("links", has("colour", "window", "trees") || (state.colour.startsWith("series:") && has("time")));
  mark("path", has("path") || (state.path && has("time")));
  mark("trees", has(...FILTERS, "colour"));
  mark("moving", has(...FILTERS, "time", "colour", "playing"));
  if (has("selected", "pointed")) noteMarked(picture, markedIn(state, picture.pane));
  if (has("cameras")) follow(picture, state.cameras[picture.pane] ?? null);
}

/** Emphasise other things than before, if they are others. */
function noteMarked(picture: Picture, marked: Selected[]): void {
  if (JSON.stringify(marked) === JSON.stringify(picture.marked)) return;
  const isTree = [...marked, ...picture.marked].some((thing) => thing.kind === "tree");
  for (const part of isTree ? ["picked", "trees", "links"] as const : ["picked"] as const) picture.stale.add(part);
  picture.marked = marked;
}

/** Look as the state says, unless it says what the picture has told it. */
function follow(picture: Picture, camera: Camera | null): void {
  if (JSON.stringify(cameraIn(picture)) !== JSON.stringify(camera)) lookAs(picture, camera);
}
