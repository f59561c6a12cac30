// Time from left to right: the critical path, then a row for each link, the busiest first, with its transfers.
import { passing, type Model } from "../model";
import type { State, Store } from "../state";
import { ABOVE, barUnder, drawRows, GUTTER, ROW, rowUnder, shownPart, type Rows } from "./rows";

export interface Timeline {
  note(changed: Set<keyof State>): void;
  draw(): void;
  resize(): void;
  close(): void;
}

export function timelineIn(host: HTMLElement, model: Model, store: Store, pane: number, longest: number): Timeline {
  const rows = rowsIn(host, model, store, pane, longest);
  host.addEventListener("scroll", () => (rows.isStale = true));
  rows.canvas.addEventListener("click", (event) => select(rows, event));
  rows.canvas.addEventListener("wheel", (event) => zoom(rows, event), { passive: false });
  resize(rows);
  return {
    draw: () => drawRows(rows),
    resize: () => resize(rows),
    note: (changed) => note(rows, changed),
    close: () => host.replaceChildren(),
  };
}

function rowsIn(host: HTMLElement, model: Model, store: Store, pane: number, longest: number): Rows {
  const canvas = host.appendChild(document.createElement("canvas"));
  const spacer = host.appendChild(document.createElement("div"));
  const cursor = host.appendChild(document.createElement("div"));
  cursor.className = "cursor";
  spacer.style.height = `${(model.busiest.length + ABOVE) * ROW + 6}px`;
  const rowOfLink = new Map(Array.from(model.busiest, (link, at) => [link, at + ABOVE]));
  const mask = passing(model, store.state);
  return { host, canvas, cursor, model, store, pane, longest, rowOfLink, mask, isStale: true, bars: [] };
}

function resize(rows: Rows): void {
  const { canvas, host } = rows;
  canvas.width = Math.max(1, Math.round(host.clientWidth * devicePixelRatio));
  canvas.height = Math.max(1, Math.round(host.clientHeight * devicePixelRatio));
  canvas.style.width = `${host.clientWidth}px`;
  canvas.style.height = `${host.clientHeight}px`;
  canvas.style.marginBottom = `-${host.clientHeight}px`; // it lies over the spacer, which scrolls
  rows.isStale = true;
}

const FILTERS: (keyof State)[] = ["trees", "half", "phase", "step"];
/** What changes no row. */
const ELSEWHERE = new Set<keyof State>(["time", "playing", "duration", "cameras", "pointed"]);

function note(rows: Rows, changed: Set<keyof State>): void {
  if (FILTERS.some((name) => changed.has(name))) rows.mask = passing(rows.model, rows.store.state);
  if ([...changed].some((name) => !ELSEWHERE.has(name))) rows.isStale = true;
}

/** Select the transfer under the pointer, or the link whose name is there. */
function select(rows: Rows, event: MouseEvent): void {
  const { store, model, pane } = rows;
  const bar = barUnder(rows, event);
  if (bar) return store.set({ selected: { kind: "transfer", at: bar.transfer, pane } });
  const link = model.busiest[rowUnder(rows, event) - ABOVE];
  const isName = event.clientX - rows.host.getBoundingClientRect().left < GUTTER;
  store.set({ selected: link !== undefined && isName ? { kind: "link", at: link, pane } : null });
}

/** Zoom in time with Shift or Ctrl and the wheel, and move in time with a wheel that goes sideways. */
function zoom(rows: Rows, event: WheelEvent): void {
  const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
  if (!event.ctrlKey && !event.shiftKey && !event.altKey && !isSideways) return;
  event.preventDefault();
  const [from, to] = shownPart(rows.store.state, rows.longest);
  const width = to - from;
  if (isSideways && !event.shiftKey) return moveTo(rows, from + (event.deltaX / 600) * width, width);
  const box = rows.canvas.getBoundingClientRect();
  const part = (event.clientX - box.left - GUTTER) / Math.max(box.width - GUTTER - 10, 1);
  const wider = Math.min(width * Math.exp((event.deltaY || event.deltaX) * 0.002), rows.longest);
  moveTo(rows, from + Math.min(Math.max(part, 0), 1) * (width - wider), wider);
}

function moveTo({ store, longest }: Rows, from: number, width: number): void {
  const start = Math.min(Math.max(from, 0), longest - width);
  store.set({ zoom: width >= longest * 0.999 ? null : [start, start + width] });
}
