// How a picture is looked at: what of the layout is in its middle, how large it is, and how space is turned.
import { zoomIdentity, type ZoomTransform } from "d3-zoom";

import type { View } from "../picture/drawing";
import { extentOf, type Places, type Turn } from "../picture/places";
import type { Camera } from "../state";

export interface Room {
  width: number;
  height: number;
}

/** The view that shows all of a network. */
export interface Fit {
  scale: number;
  x: number;
  y: number;
}

/** The margins around a network, in pixels: at least so much that names below nodes are seen. */
const [LEAST_MARGIN, MOST_MARGIN] = [24, 34];
const MOST_SCALE = 140;

export function fitTo(places: Places, room: Room): Fit {
  const [left, top, right, bottom] = extentOf(places.nodes, places.segments, places.frame);
  const margin = Math.min(MOST_MARGIN, Math.max(LEAST_MARGIN, 0.07 * Math.min(room.width, room.height)));
  const wide = Math.max(room.width - 2 * margin, 20) / Math.max(right - left, 1e-6);
  const high = Math.max(room.height - 2 * margin, 20) / Math.max(bottom - top, 1e-6);
  const scale = Math.min(wide, high, MOST_SCALE);
  const middle = [(left + right) / 2, (top + bottom) / 2];
  return { scale, x: room.width / 2 - middle[0] * scale, y: room.height / 2 - middle[1] * scale };
}

export function viewOf(fit: Fit, transform: ZoomTransform, room: Room): View {
  const [x, y] = [fit.x * transform.k + transform.x, fit.y * transform.k + transform.y];
  return { scale: fit.scale * transform.k, x, y, width: room.width, height: room.height };
}

/** Return how a picture is looked at, whatever the size of the window; null if it is as at first. */
export function cameraOf(fit: Fit, transform: ZoomTransform, room: Room, turn: Turn, first: Turn): Camera | null {
  const isTurned = turn.yaw !== first.yaw || turn.pitch !== first.pitch;
  if (!isTurned && transform.k === 1 && transform.x === 0 && transform.y === 0) return null;
  const view = viewOf(fit, transform, room);
  const [x, y] = [(room.width / 2 - view.x) / view.scale, (room.height / 2 - view.y) / view.scale];
  const all = { zoom: transform.k, x, y, ...turn };
  return Object.fromEntries(Object.entries(all).map(([name, each]) => [name, rounded(each)])) as unknown as Camera;
}

/** Return the transform that brings what a camera looks at into the middle. */
export function transformOf(camera: Camera | null, fit: Fit, room: Room): ZoomTransform {
  if (!camera) return zoomIdentity;
  const x = room.width / 2 - camera.zoom * (fit.scale * camera.x + fit.x);
  const y = room.height / 2 - camera.zoom * (fit.scale * camera.y + fit.y);
  return zoomIdentity.translate(x, y).scale(camera.zoom);
}

function rounded(value: number): number {
  return Number(value.toPrecision(6));
}
