// What a pane holds: its canvases, the places and layers of its network, and how they are looked at.
import { select } from "d3-selection";
import { zoomIdentity, type ZoomTransform } from "d3-zoom";

import { passing, type Model } from "../model";
import { canvasPainter } from "../picture/canvas";
import type { Label, View } from "../picture/drawing";
import { glPainter, type Painter } from "../picture/gl";
import { labelsOf } from "../picture/labels";
import * as network from "../picture/network";
import { placesOf, type Places, type Turn } from "../picture/places";
import type { Camera, Selected, State, Store } from "../state";
import { cameraOf, fitTo, transformOf, viewOf, type Fit, type Room } from "./camera";

/** What must be filled or drawn again. */
export type Part = "places" | "links" | "trees" | "moving" | "path" | "picked";

export interface Picture {
  host: HTMLElement;
  canvas: HTMLCanvasElement;
  /** The canvas above the picture, which has the names of nodes and hears the pointer. */
  labels: HTMLCanvasElement;
  model: Model;
  store: Store;
  pane: number;
  painter: Painter;
  turn: Turn;
  /** The places as they are turned at first, which are fitted into the window; and as they are turned now. */
  rest: Places;
  places: Places;
  layers: network.Layers;
  fit: Fit;
  transform: ZoomTransform;
  /** Which transfers the filters let pass. */
  mask: Uint8Array;
  /** What is selected or under the pointer. */
  marked: Selected[];
  stale: Set<Part>;
}

export function pictureIn(host: HTMLElement, model: Model, store: Store, pane: number): Picture {
  const canvas = host.appendChild(document.createElement("canvas"));
  const labels = host.appendChild(labelCanvas(model));
  const gl = glPainter(canvas);
  host.dataset.painter = gl ? "gpu" : "canvas";
  const turn = firstTurn(model);
  const rest = placesOf(model.network, model.net, turn);
  return {
    host, canvas, labels, model, store, pane, turn, rest,
    painter: gl ?? canvasPainter(canvas),
    places: rest,
    layers: network.layersFor(model, rest),
    fit: { scale: 1, x: 0, y: 0 },
    transform: zoomIdentity,
    mask: passing(model, store.state),
    marked: markedIn(store.state, pane),
    stale: new Set(["places"]),
  };
}

/** Go on with a canvas after the GPU was taken away, as happens when a machine sleeps or has many pages open. */
export function leaveGpu(picture: Picture): void {
  const fresh = document.createElement("canvas");
  [fresh.width, fresh.height] = [picture.canvas.width, picture.canvas.height];
  picture.canvas.replaceWith(fresh); // a canvas that had the GPU gives no other context
  picture.canvas = fresh;
  picture.painter = canvasPainter(fresh);
  picture.host.dataset.painter = "canvas";
  picture.stale.add("places");
}

function labelCanvas(model: Model): HTMLCanvasElement {
  const labels = document.createElement("canvas");
  labels.className = "labels";
  labels.tabIndex = 0;
  labels.setAttribute("role", "img");
  labels.setAttribute("aria-label", `Network ${model.network.name} with ${model.network.nodes.length} nodes`);
  return labels;
}

/** Return what is under the pointer in a pane, and what is selected there. */
export function markedIn({ pointed, selected }: State, pane: number): Selected[] {
  const things = [pointed, selected].filter((thing): thing is Selected => thing?.pane === pane);
  return things.map(({ kind, at }) => ({ kind, at, pane }));
}

function firstTurn(model: Model): Turn {
  const [yaw, pitch] = model.network.turn;
  return { yaw, pitch };
}

function roomOf(picture: Picture): Room {
  return { width: picture.host.clientWidth, height: picture.host.clientHeight };
}

export function viewIn(picture: Picture): View {
  return viewOf(picture.fit, picture.transform, roomOf(picture));
}

export function sizesIn(picture: Picture): network.Sizes {
  return network.sizesAt(picture.places, viewIn(picture).scale);
}

export function labelsIn(picture: Picture): Label[] {
  return labelsOf(picture.model, picture.places, sizesIn(picture).node, viewIn(picture).scale);
}

export function resize(picture: Picture): void {
  const room = roomOf(picture);
  for (const each of [picture.canvas, picture.labels]) {
    each.width = Math.max(1, Math.round(room.width * devicePixelRatio));
    each.height = Math.max(1, Math.round(room.height * devicePixelRatio));
  }
  picture.fit = fitTo(picture.rest, room);
  lookAs(picture, picture.store.state.cameras[picture.pane] ?? null);
}

/** Return how the picture is looked at; null if it is as at first. */
export function cameraIn(picture: Picture): Camera | null {
  return cameraOf(picture.fit, picture.transform, roomOf(picture), picture.turn, firstTurn(picture.model));
}

/** Look at the picture as a camera does, or at all of it. */
export function lookAs(picture: Picture, camera: Camera | null): void {
  turnTo(picture, camera ?? firstTurn(picture.model));
  picture.transform = transformOf(camera, picture.fit, roomOf(picture));
  // d3-zoom keeps its transform there: the next turn of the wheel goes on from it.
  select(picture.labels).property("__zoom", picture.transform);
}

export function turnTo(picture: Picture, { yaw, pitch }: Turn): void {
  picture.stale.add("places");
  if (yaw === picture.turn.yaw && pitch === picture.turn.pitch) return;
  picture.turn = { yaw, pitch };
  picture.places = placesOf(picture.model.network, picture.model.net, picture.turn);
}
