// What the pointer does in a picture: it zooms, moves and turns it, and finds nodes and links.
import { select } from "d3-selection";
import { zoom, type D3ZoomEvent } from "d3-zoom";

import { LEAST_ZOOM, MOST_ZOOM, type Camera } from "../state";
import { nearestLink, nearestNode } from "./picking";
import { cameraIn, sizesIn, turnTo, viewIn, type Hover, type Picture } from "./picture";

/** Let the wheel zoom and a drag move the picture, until it is stopped. */
export function listenToZoom(picture: Picture): { stop(): void } {
  const isSpace = picture.model.network.layout === "space";
  const zooming = zoom<HTMLCanvasElement, unknown>()
    .scaleExtent([LEAST_ZOOM, MOST_ZOOM])
    .filter((event) => event.type === "wheel" || (!event.button && (!isSpace || event.shiftKey || event.touches)))
    .on("zoom", (event: D3ZoomEvent<HTMLCanvasElement, unknown>) => {
      picture.transform = event.transform;
      picture.stale.add("places");
      keepCamera(picture, cameraIn(picture));
    });
  const labels = select(picture.labels).call(zooming).on("dblclick.zoom", null);
  return { stop: () => void labels.on(".zoom", null) };
}

export function lookAtAll(picture: Picture): void {
  keepCamera(picture, null);
}

function keepCamera({ store, pane }: Picture, camera: Camera | null): void {
  const cameras = store.state.shown.map((_, at) => (at === pane ? camera : store.state.cameras[at] ?? null));
  store.set({ cameras: cameras.some(Boolean) ? cameras : [] });
}

/** How far three dimensions turn for each pixel of a drag, in radians. */
const TURN = 0.008;

export function listenToPointer(picture: Picture, hovered: (hover: Hover) => void): void {
  const { labels, store, pane } = picture;
  const isSpace = picture.model.network.layout === "space";
  let isDragged = false;
  const hover = (next: Hover) => {
    if (next?.kind !== picture.hover?.kind || next?.at !== picture.hover?.at) picture.stale.add("picked");
    picture.hover = next;
    hovered(next);
  };
  labels.addEventListener("pointermove", (event) => {
    isDragged ||= isSpace && event.buttons === 1 && !event.shiftKey;
    if (isDragged) turnBy(picture, event);
    else hover(under(picture, event));
  });
  labels.addEventListener("pointerdown", () => (isDragged = false));
  labels.addEventListener("pointerup", () => setTimeout(() => (isDragged = false)));
  labels.addEventListener("pointerleave", () => hover(null));
  labels.addEventListener("dblclick", () => lookAtAll(picture));
  labels.addEventListener("click", () => {
    const found = picture.hover;
    if (!isDragged) store.set({ selected: found && { kind: found.kind, at: found.at, pane } });
  });
}

function turnBy(picture: Picture, { movementX, movementY }: PointerEvent): void {
  const { yaw, pitch } = picture.turn;
  turnTo(picture, { yaw: yaw + movementX * TURN, pitch: pitch + movementY * TURN });
  keepCamera(picture, cameraIn(picture));
}

/** Return the node or link under the pointer. */
function under(picture: Picture, event: PointerEvent): Hover {
  const { labels, places, layers, pane } = picture;
  const box = labels.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const node = nearestNode(places, viewIn(picture), sizesIn(picture).node, x, y);
  const link = node < 0 ? nearestLink(layers.links, places, viewIn(picture), x, y) : -1;
  const where = { pane, x: event.clientX, y: event.clientY };
  if (node >= 0) return { kind: "node", at: node, ...where };
  return link >= 0 ? { kind: "link", at: link, ...where } : null;
}
