// The picture of one scene: it draws when something has changed, and answers the pointer.
import { select } from "d3-selection";
import { zoom, zoomIdentity, type D3ZoomEvent } from "d3-zoom";

import { themeOf } from "../colours";
import { passing, type Model } from "../model";
import { canvasPainter, drawLabels } from "../picture/canvas";
import type { Drawing, Label, View } from "../picture/drawing";
import { glPainter, type Painter } from "../picture/gl";
import * as network from "../picture/network";
import { extentOf, FIRST_TURN, placesOf, type Places, type Turn } from "../picture/places";
import type { State, Store } from "../state";
import { nearestLink, nearestNode } from "./picking";

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
  isOnGpu: boolean;
  close(): void;
}

export type Hover = { kind: "node" | "link"; at: number; pane: number; x: number; y: number } | null;

const MOST_MARGIN = 34;
/** Below the picture stands what its colours mean. */
const BELOW = 22;

/** Put a picture into an element; `hovered` hears what is under the pointer. */
export function paneIn(host: HTMLElement, model: Model, store: Store, pane: number, hovered: (hover: Hover) => void): Pane {
  const canvas = host.appendChild(document.createElement("canvas"));
  const labels = host.appendChild(document.createElement("canvas"));
  labels.className = "labels";
  labels.tabIndex = 0;
  labels.setAttribute("role", "img");
  labels.setAttribute("aria-label", `Network ${model.network.name} with ${model.network.nodes.length} nodes`);
  const gl = glPainter(canvas);
  const painter: Painter = gl ?? canvasPainter(canvas);
  let turn: Turn = { ...FIRST_TURN };
  let places: Places = placesOf(model.network, model.net, turn);
  const layers = network.layersFor(model, places);
  let fitted = { scale: 1, x: 0, y: 0 };
  let transform = zoomIdentity;
  let mask = passing(model, store.state);
  let hover: Hover = null;
  const stale = { places: true, links: true, trees: true, moving: true, path: true, picked: true, all: true };

  const view = (): View => ({
    scale: fitted.scale * transform.k,
    x: fitted.x * transform.k + transform.x,
    y: fitted.y * transform.k + transform.y,
    width: host.clientWidth,
    height: host.clientHeight,
  });
  const sizes = () => network.sizesAt(places, view().scale);

  function fit(): void {
    const [left, top, right, bottom] = extentOf(places.nodes, places.segments);
    const [width, height] = [Math.max(right - left, 1e-6), Math.max(bottom - top, 1e-6)];
    const margin = Math.min(MOST_MARGIN, 0.07 * host.clientWidth, 0.07 * host.clientHeight);
    const room = [Math.max(host.clientWidth - 2 * margin, 20), Math.max(host.clientHeight - 2 * margin - BELOW, 20)];
    const scale = Math.min(room[0] / width, room[1] / height, 140);
    const middle = [(left + right) / 2, (top + bottom) / 2];
    fitted = { scale, x: host.clientWidth / 2 - middle[0] * scale, y: (host.clientHeight - BELOW) / 2 - middle[1] * scale };
  }

  function resize(): void {
    const ratio = devicePixelRatio;
    for (const each of [canvas, labels]) {
      each.width = Math.max(1, Math.round(host.clientWidth * ratio));
      each.height = Math.max(1, Math.round(host.clientHeight * ratio));
    }
    fit();
    stale.places = stale.all = true;
  }

  function refill(state: State): void {
    const theme = themeOf(state.theme);
    const now = sizes();
    if (stale.places) {
      network.fillCoasts(layers.coasts, places, theme);
      network.fillLinks(layers.links, model, places, now);
    }
    if (stale.places || stale.links) {
      network.colourLinks(layers.links, model, places, now, state, theme);
      network.fillNodes(layers.nodes, model, places, now, state, theme);
    }
    if (stale.places || stale.path) network.fillPath(layers, model, places, now, state, theme);
    if (stale.places || stale.trees) network.fillTrees(layers, model, places, now, state, theme);
    if (stale.places || stale.moving) network.fillMoving(layers, model, places, now, state, theme, mask);
    if (stale.places || stale.picked) {
      const own = state.selected?.pane === pane ? state.selected : null;
      const picked = network.pickedOf(model, own);
      if (hover?.kind === "node") picked.nodes.push(hover.at);
      if (hover?.kind === "link") picked.links.push(hover.at);
      network.fillPicked(layers, model, places, now, theme, picked);
    }
  }

  function draw(all = false): void {
    if (!stale.all && !all) return;
    const { state } = store;
    const theme = themeOf(state.theme);
    refill(state);
    const ratio = devicePixelRatio;
    painter.draw({ layers: network.layersOf(layers), labels: [] }, view(), ratio, theme.paper);
    if (stale.places) drawLabels(labels, labelsOf(model, places, sizes().node, view().scale), view(), ratio, theme.ink, theme.paper);
    stale.places = stale.links = stale.trees = stale.moving = stale.path = stale.picked = stale.all = false;
  }

  function note(changed: Set<keyof State>): void {
    const has = (...names: (keyof State)[]) => names.some((name) => changed.has(name));
    if (has("trees", "half", "phase", "step")) mask = passing(model, store.state);
    stale.places ||= has("theme");
    stale.links ||= has("colour", "window", "trees") || (store.state.colour.startsWith("series:") && has("time"));
    stale.path ||= has("path") || (store.state.path && has("time"));
    stale.trees ||= has("trees", "half", "phase", "step", "colour");
    stale.moving ||= has("time", "trees", "half", "phase", "step", "colour", "playing");
    stale.picked ||= has("selected");
    stale.all ||= stale.places || stale.links || stale.trees || stale.moving || stale.path || stale.picked;
  }

  const isSpace = model.network.layout === "space";
  const zooming = zoom<HTMLCanvasElement, unknown>()
    .scaleExtent([0.3, 60])
    .filter((event) => event.type === "wheel" || (!event.button && (!isSpace || event.shiftKey || event.touches)))
    .on("zoom", (event: D3ZoomEvent<HTMLCanvasElement, unknown>) => {
      transform = event.transform;
      stale.places = stale.all = true;
    });
  select(labels).call(zooming).on("dblclick.zoom", null);
  labels.addEventListener("dblclick", refit);

  function refit(): void {
    turn = { ...FIRST_TURN };
    places = placesOf(model.network, model.net, turn);
    select(labels).call(zooming.transform, zoomIdentity);
    stale.places = stale.all = true;
  }

  let dragged = false;
  labels.addEventListener("pointermove", (event) => {
    if (isSpace && event.buttons === 1 && !event.shiftKey) {
      turn = { yaw: turn.yaw + event.movementX * 0.008, pitch: turn.pitch + event.movementY * 0.008 };
      places = placesOf(model.network, model.net, turn);
      stale.places = stale.all = dragged = true;
      return;
    }
    const box = labels.getBoundingClientRect();
    show(event.clientX - box.left, event.clientY - box.top, event);
  });
  labels.addEventListener("pointerdown", () => (dragged = false));
  labels.addEventListener("pointerleave", () => setHover(null));
  labels.addEventListener("click", () => {
    if (dragged) return;
    store.set({ selected: hover && { kind: hover.kind, at: hover.at, pane } });
  });

  function show(x: number, y: number, event: PointerEvent): void {
    const node = nearestNode(places, view(), sizes().node, x, y);
    const link = node < 0 ? nearestLink(layers.links, places, view(), x, y) : -1;
    if (node < 0 && link < 0) return setHover(null);
    const kind = node < 0 ? "link" : "node";
    setHover({ kind, at: node < 0 ? link : node, pane, x: event.clientX, y: event.clientY });
  }

  function setHover(next: Hover): void {
    if (next?.kind !== hover?.kind || next?.at !== hover?.at) stale.picked = stale.all = true;
    hover = next;
    hovered(next);
  }

  resize();
  return {
    model,
    draw,
    note,
    resize,
    refit,
    drawing: () => ({ layers: network.layersOf(layers), labels: labelsOf(model, places, sizes().node, view().scale) }),
    view,
    isOnGpu: gl !== null,
    close: () => {
      gl?.close();
      select(labels).on(".zoom", null);
      host.replaceChildren();
    },
  };
}

/** Return the names of nodes; where they would be too long, without what all names begin with. */
function labelsOf(model: Model, places: Places, size: number, scale: number): Label[] {
  const names = model.network.nodes;
  const longest = Math.max(...names.slice(0, 2000).map((name) => name.length));
  const isTight = 6.8 * longest + 20 > places.spacing * scale; // what `fittingLabels` keeps free
  return names.map((name, node) => ({
    x: places.nodes[2 * node],
    y: places.nodes[2 * node + 1],
    text: isTight ? shortened(name) : name,
    below: size / 2 + 8,
  }));
}

/** Return the number at the end of a name such as GPU12, and other names as they are. */
function shortened(name: string): string {
  return /^\D{1,6}(\d+)$/.exec(name)?.[1] ?? name;
}

