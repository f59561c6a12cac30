// What the pointer does in a picture: it zooms, moves and turns it, and finds nodes, trees and links.
import { select } from "d3-selection";
import { zoom, type D3ZoomEvent } from "d3-zoom";

import { LEAST_ZOOM, MOST_ZOOM, type Camera, type Pointed } from "../state";
import { linkOf, nearestNode, nearestSegment } from "./picking";
import { cameraIn, sizesIn, turnTo, viewIn, type Picture } from "./picture";

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

export function listenToPointer(picture: Picture): void {
  const { labels, store } = picture;
  const isSpace = picture.model.network.layout === "space";
  let isDragged = false;
  labels.addEventListener("pointermove", (event) => {
    const turns = isSpace && event.buttons === 1 && !event.shiftKey;
    isDragged ||= turns;
    if (turns) turnBy(picture, event);
    else if (!event.buttons) store.set({ pointed: under(picture, event) });
  });
  labels.addEventListener("pointerdown", () => (isDragged = false));
  labels.addEventListener("pointerup", () => setTimeout(() => (isDragged = false)));
  labels.addEventListener("pointerleave", () => store.set({ pointed: null }));
  labels.addEventListener("dblclick", () => lookAtAll(picture));
  labels.addEventListener("click", () => {
    const found = store.state.pointed;
    if (!isDragged) store.set({ selected: found && { kind: found.kind, at: found.at, pane: found.pane } });
  });
}

function turnBy(picture: Picture, { movementX, movementY }: PointerEvent): void {
  const { yaw, pitch } = picture.turn;
  turnTo(picture, { yaw: yaw + movementX * TURN, pitch: pitch + movementY * TURN });
  keepCamera(picture, cameraIn(picture));
}

/** Return the node, the drawn tree or the link under the pointer. */
function under(picture: Picture, event: PointerEvent): Pointed | null {
  const { labels, places, layers, pane } = picture;
  const box = labels.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const view = viewIn(picture);
  const thing = (kind: Pointed["kind"], at: number) => (
    at < 0 ? null : { kind, at, pane, x: event.clientX, y: event.clientY });
  return thing("node", nearestNode(places, view, sizesIn(picture).node, x, y))
    ?? thing("tree", layers.treeOf[nearestSegment(layers.trees, view, x, y)] ?? -1)
    ?? thing("link", linkOf(places, nearestSegment(layers.links, view, x, y)));
}
