// Draws the rows of a timeline, and finds what is under the pointer in them.
import { css, heat, themeOf, type Theme } from "../colours";
import { NONE, row, startedBy } from "../data/transfers";
import { transferColour } from "../looks";
import { busyShare, endOf, followersOf, laneOf, linkName, type Model } from "../model";
import type { State, Store } from "../state";
import { share } from "../units";

export const GUTTER = 168;
export const ROW = 15;
const BAR = 11;
/** The rows above the links: that of the critical path. */
export const ABOVE = 1;

interface Bar {
  transfer: number;
  x0: number;
  x1: number;
  row: number;
}

/** What a timeline holds. */
export interface Rows {
  host: HTMLElement;
  canvas: HTMLCanvasElement;
  cursor: HTMLElement;
  model: Model;
  store: Store;
  pane: number;
  /** The time of the longer scene. */
  longest: number;
  rowOfLink: Map<number, number>;
  /** Which transfers the filters let pass. */
  mask: Uint8Array;
  isStale: boolean;
  /** What was drawn, for the pointer. */
  bars: Bar[];
}

/** What rows are drawn with. */
interface Brush {
  context: CanvasRenderingContext2D;
  theme: Theme;
  /** The part of the time that is shown. */
  part: [number, number];
  xOf(moment: number): number;
}

/** Return the part of the time that is shown; `longest` is that of the longer scene. */
export function shownPart(state: State, longest: number): [number, number] {
  return state.zoom ?? [0, longest || 1];
}

function brushOf(rows: Rows): Brush {
  const part = shownPart(rows.store.state, rows.longest);
  const width = Math.max(rows.canvas.clientWidth - GUTTER - 10, 1);
  const xOf = (moment: number) => GUTTER + ((moment - part[0]) / (part[1] - part[0])) * width;
  return { context: rows.canvas.getContext("2d")!, theme: themeOf(rows.store.state.theme), part, xOf };
}

/** Draw the rows that are seen, if they have changed, and the cursor. */
export function drawRows(rows: Rows): void {
  const { host, model, cursor } = rows;
  const brush = brushOf(rows);
  const x = brush.xOf(rows.store.state.time);
  cursor.style.transform = `translateX(${x}px)`;
  cursor.hidden = x < GUTTER - 1;
  cursor.style.top = `${host.scrollTop}px`;
  if (!rows.isStale) return;
  rows.isStale = false;
  rows.bars = [];
  clear(rows, brush);
  const first = Math.max(Math.floor(host.scrollTop / ROW), 0);
  const last = Math.min(Math.ceil((host.scrollTop + host.clientHeight) / ROW), model.busiest.length + ABOVE);
  for (let at = first; at < last; at++) {
    if (at < ABOVE) drawPath(rows, brush);
    else drawLink(rows, brush, model.busiest[at - ABOVE], at);
  }
  drawDependencies(rows, brush);
}

function clear({ host, canvas }: Rows, { context, theme }: Brush): void {
  const ratio = devicePixelRatio;
  context.setTransform(ratio, 0, 0, ratio, 0, -host.scrollTop * ratio);
  context.fillStyle = css(theme.paper);
  context.fillRect(0, host.scrollTop, canvas.clientWidth, host.clientHeight);
  context.font = "10.5px system-ui, sans-serif";
  context.textBaseline = "middle";
}

function drawName({ context, theme }: Brush, text: string, value: string, at: number): void {
  context.fillStyle = css(theme.ink);
  context.fillText(clipped(context, text, GUTTER - 56), 8, at * ROW + ROW / 2 + 1);
  context.textAlign = "right";
  context.fillText(value, GUTTER - 8, at * ROW + ROW / 2 + 1);
  context.textAlign = "left";
}

function drawLink(rows: Rows, brush: Brush, link: number, at: number): void {
  const { model, canvas } = rows;
  const { context, theme } = brush;
  const { state } = rows.store;
  drawName(brush, linkName(model, link), model.isRead ? share(busyShare(model, link, state.window)) : "", at);
  if (isSelected(rows, "link", link)) {
    context.fillStyle = css(theme.accent, 0.18);
    context.fillRect(0, at * ROW, canvas.clientWidth, ROW);
  }
  if (!model.transfers.count || model.scene.trees_here < model.scene.trees) drawHeat(rows, brush, link, at);
  // What the filters let pass is drawn last, so that nothing hides it.
  for (const passes of isFiltered(state) ? [0, 1] : [1]) {
    for (const lane of row(model.transfers.lanesOfLink, link)) drawLane(rows, brush, lane, at, passes);
  }
}

function isSelected({ store, pane }: Rows, kind: "link" | "transfer", at: number): boolean {
  const { selected } = store.state;
  return selected?.kind === kind && selected.pane === pane && selected.at === at;
}

function drawLane(rows: Rows, brush: Brush, lane: number, at: number, passes: number): void {
  const { transfers } = rows.model;
  const { items, starts } = transfers.ofLane;
  const [from, to] = brush.part;
  const last = startedBy(transfers, lane, to);
  let before = -1;
  for (let place = Math.max(startedBy(transfers, lane, from) - 8, starts[lane]); place < last; place++) {
    const transfer = items[place];
    if (transfers.sent[transfer] < from || rows.mask[transfer] !== passes) continue;
    const x0 = Math.max(brush.xOf(transfers.start[transfer]), GUTTER);
    const x1 = brush.xOf(transfers.sent[transfer]);
    const end = isNarrow(x0, x1) ? wholePixels(x0, x1)[1] : x1;
    if (end <= before) continue; // it lies within what is drawn
    before = end;
    drawBar(rows, brush, { transfer, x0, x1, row: at });
  }
}

function isNarrow(x0: number, x1: number): boolean {
  return x1 - x0 < 1.5;
}

/** Return the pixels that a narrow bar touches: were only parts of them filled, rows would seem to pulse. */
function wholePixels(x0: number, x1: number): [number, number] {
  return [Math.floor(x0), Math.max(Math.ceil(x1), Math.floor(x0) + 1)];
}

function drawBar(rows: Rows, { context, theme }: Brush, { transfer, x0, x1, row: at }: Bar): void {
  const { model, mask } = rows;
  const { state } = rows.store;
  context.fillStyle = css(transferColour(model, state, theme, transfer), mask[transfer] ? 1 : 0.12);
  const gap = x1 - x0 > 3 ? 0.6 : 0;
  const top = at * ROW + (ROW - BAR) / 2;
  const [left, right] = isNarrow(x0, x1) ? wholePixels(x0, x1) : [x0, x1 - gap];
  context.fillRect(left, top, right - left, BAR);
  rows.bars.push({ transfer, x0, x1: Math.max(x1, x0 + 2), row: at });
  const isMarked = isSelected(rows, "transfer", transfer);
  if (!isMarked && !(state.path && model.onPath.has(transfer))) return;
  context.strokeStyle = css(isMarked ? theme.ink : theme.accent);
  context.lineWidth = isMarked ? 2 : 1.5;
  context.strokeRect(x0, top, Math.max(x1 - x0 - gap, 1), BAR);
}

/** Where the page has only some transfers, or none: how busy the link is with all of them. */
function drawHeat({ model, canvas }: Rows, { context, theme, xOf }: Brush, link: number, at: number): void {
  const width = model.scene.time_s / model.windows;
  for (let window = 0; window < model.windows; window++) {
    const part: [number, number] = [window * width, (window + 1) * width];
    const [x0, x1] = [Math.max(xOf(part[0]), GUTTER), xOf(part[1])];
    if (x1 < GUTTER || x0 > canvas.clientWidth) continue;
    context.fillStyle = css(heat(busyShare(model, link, part), theme), 0.55);
    context.fillRect(x0, at * ROW + 1, x1 - x0 + 0.5, ROW - 2);
  }
}

function drawPath(rows: Rows, brush: Brush): void {
  const { transfers } = rows.model;
  const { context, theme } = brush;
  drawName(brush, "Critical path", transfers.path.length ? `${transfers.path.length}` : "", 0);
  for (const transfer of transfers.path) {
    const moments = [transfers.start[transfer], transfers.sent[transfer], transfers.received[transfer]];
    const [x0, x1, x2] = moments.map(brush.xOf);
    if (x2 < GUTTER || x0 > rows.canvas.clientWidth) continue;
    const from = Math.max(x0, GUTTER);
    const [left, right] = isNarrow(from, x1) ? wholePixels(from, x1) : [from, x1 - 0.4];
    context.fillStyle = css(theme.accent);
    context.fillRect(left, 2, right - left, BAR);
    context.fillStyle = css(theme.accent, 0.35);
    context.fillRect(Math.max(x1, GUTTER), 4, Math.max(x2 - Math.max(x1, GUTTER) - 0.4, 0), BAR - 4);
    rows.bars.push({ transfer, x0, x1: Math.max(x2, x0 + 2), row: 0 });
  }
}

/** Draw what a selected transfer waited for, back to the start, and what waited for it. */
function drawDependencies(rows: Rows, brush: Brush): void {
  const { selected } = rows.store.state;
  const { cause, count } = rows.model.transfers;
  if (!selected || selected.at >= count || !isSelected(rows, "transfer", selected.at)) return;
  brush.context.lineWidth = 1.4;
  brush.context.strokeStyle = css(brush.theme.ink, 0.9);
  for (let at = selected.at; cause[at] !== NONE; at = cause[at]) connect(rows, brush, cause[at], at);
  brush.context.strokeStyle = css(brush.theme.accent, 0.9);
  for (const follower of followersOf(rows.model, selected.at)) connect(rows, brush, selected.at, follower);
}

function connect({ model, rowOfLink }: Rows, { context, xOf }: Brush, from: number, to: number): void {
  const start = model.transfers.start[to];
  const [y0, y1] = [from, to].map((transfer) => (rowOfLink.get(firstLink(model, transfer)) ?? 0) * ROW + ROW / 2);
  const [x0, x1] = [xOf(Math.min(endOf(model, from, to).end, start)), xOf(start)];
  if (Math.max(x0, x1) < GUTTER) return;
  context.beginPath();
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0 + 8, y0, x1 - 8, y1, x1, y1);
  context.stroke();
}

/** Return the number of the row under the pointer. */
export function rowUnder({ host }: Rows, event: MouseEvent): number {
  return Math.floor((event.clientY - host.getBoundingClientRect().top + host.scrollTop) / ROW);
}

/** Return what is drawn under the pointer. */
export function barUnder(rows: Rows, event: MouseEvent): Bar | undefined {
  const x = event.clientX - rows.host.getBoundingClientRect().left;
  const at = rowUnder(rows, event);
  return rows.bars.find((bar) => bar.row === at && x >= bar.x0 - 1 && x <= bar.x1 + 1);
}

function isFiltered(state: State): boolean {
  return Boolean(state.trees) || state.half !== "both" || state.phase !== null || state.step !== null;
}

function firstLink(model: Model, transfer: number): number {
  const { lanes } = model.transfers;
  return lanes.links[lanes.start[laneOf(model.transfers, transfer)]];
}

function clipped(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let end = Math.min(text.length, 40);
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > room) end--;
  return `${text.slice(0, end)}…`;
}
