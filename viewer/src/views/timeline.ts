// Time from left to right: the critical path, then a row for each link, the busiest first, with its transfers.
import { css, themeOf, heat, type Theme } from "../colours";
import { NONE, startedBy, row } from "../data/transfers";
import { transferColour } from "../looks";
import { busyShare, laneOf, linkName, passing, type Model } from "../model";
import type { State, Store } from "../state";
import { share } from "../units";

export const GUTTER = 168;
const ROW = 15;
const BAR = 11;
/** The rows above the links: that of the critical path. */
const ABOVE = 1;

export interface Timeline {
  note(changed: Set<keyof State>): void;
  draw(): void;
  resize(): void;
  close(): void;
}

/** Return the part of the time that is shown; `longest` is that of the longer scene. */
export function shownPart(state: State, longest: number): [number, number] {
  return state.zoom ?? [0, longest || 1];
}

export function timelineIn(host: HTMLElement, model: Model, store: Store, pane: number, longest: number): Timeline {
  const canvas = host.appendChild(document.createElement("canvas"));
  const spacer = host.appendChild(document.createElement("div"));
  const cursor = host.appendChild(document.createElement("div"));
  cursor.className = "cursor";
  spacer.style.height = `${(model.busiest.length + ABOVE) * ROW + 6}px`;
  const rowOfLink = new Map(Array.from(model.busiest, (link, at) => [link, at + ABOVE]));
  let mask = passing(model, store.state);
  let stale = true;
  let placed: Placed[] = [];

  const xOf = (moment: number): number => {
    const [from, to] = shownPart(store.state, longest);
    return GUTTER + ((moment - from) / (to - from)) * Math.max(canvas.clientWidth - GUTTER - 10, 1);
  };

  function resize(): void {
    canvas.width = Math.max(1, Math.round(host.clientWidth * devicePixelRatio));
    canvas.height = Math.max(1, Math.round(host.clientHeight * devicePixelRatio));
    canvas.style.width = `${host.clientWidth}px`;
    canvas.style.height = `${host.clientHeight}px`;
    canvas.style.marginBottom = `-${host.clientHeight}px`; // it lies over the spacer, which scrolls
    stale = true;
  }

  function draw(): void {
    const x = xOf(store.state.time);
    cursor.style.transform = `translateX(${x}px)`;
    cursor.hidden = x < GUTTER - 1;
    cursor.style.top = `${host.scrollTop}px`;
    if (!stale) return;
    stale = false;
    const context = canvas.getContext("2d")!;
    const theme = themeOf(store.state.theme);
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, -host.scrollTop * devicePixelRatio);
    context.fillStyle = css(theme.paper);
    context.fillRect(0, host.scrollTop, canvas.clientWidth, host.clientHeight);
    context.font = "10.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    placed = [];
    const first = Math.max(Math.floor(host.scrollTop / ROW), 0);
    const last = Math.min(Math.ceil((host.scrollTop + host.clientHeight) / ROW), model.busiest.length + ABOVE);
    for (let at = first; at < last; at++) {
      if (at < ABOVE) drawPath(context, theme);
      else drawLink(context, theme, model.busiest[at - ABOVE], at);
    }
    drawDependencies(context, theme);
  }

  interface Placed {
    transfer: number;
    x0: number;
    x1: number;
    row: number;
  }

  function drawName(context: CanvasRenderingContext2D, theme: Theme, text: string, value: string, at: number): void {
    context.fillStyle = css(theme.ink);
    const room = GUTTER - 56;
    context.fillText(clipped(context, text, room), 8, at * ROW + ROW / 2 + 1);
    context.textAlign = "right";
    context.fillText(value, GUTTER - 8, at * ROW + ROW / 2 + 1);
    context.textAlign = "left";
  }

  function drawLink(context: CanvasRenderingContext2D, theme: Theme, link: number, at: number): void {
    const { state } = store;
    drawName(context, theme, linkName(model, link), model.isRead ? share(busyShare(model, link, state.window)) : "", at);
    if (state.selected?.kind === "link" && state.selected.pane === pane && state.selected.at === link) {
      context.fillStyle = css(theme.accent, 0.18);
      context.fillRect(0, at * ROW, canvas.clientWidth, ROW);
    }
    if (!model.transfers.count || model.scene.trees_here < model.scene.trees) drawHeat(context, theme, link, at);
    const [from, to] = shownPart(state, longest);
    const lanes = row(model.transfers.lanesOfLink, link);
    // What the filters let pass is drawn last, so that nothing hides it.
    for (const passes of isFiltered(state) ? [0, 1] : [1]) {
      for (const lane of lanes) drawLane(context, theme, lane, at, [from, to], passes);
    }
  }

  function drawLane(
    context: CanvasRenderingContext2D, theme: Theme, lane: number, at: number, [from, to]: [number, number], passes: number,
  ): void {
    const { transfers } = model;
    const { items, starts } = transfers.ofLane;
    const end = startedBy(transfers, lane, to);
    let before = -1;
    for (let place = Math.max(startedBy(transfers, lane, from) - 8, starts[lane]); place < end; place++) {
      const transfer = items[place];
      if (transfers.sent[transfer] < from || mask[transfer] !== passes) continue;
      const x0 = Math.max(xOf(transfers.start[transfer]), GUTTER);
      const x1 = xOf(transfers.sent[transfer]);
      if (x1 <= before) continue; // it lies within a pixel that is drawn
      before = x1 - x0 < 1 ? Math.ceil(x1) : x1 - 0.5;
      drawBar(context, theme, transfer, x0, x1, at);
    }
  }

  function drawBar(context: CanvasRenderingContext2D, theme: Theme, transfer: number, x0: number, x1: number, at: number): void {
    const { state } = store;
    const colour = transferColour(model, state, theme, transfer);
    context.fillStyle = css(colour, mask[transfer] ? 1 : 0.12);
    const gap = x1 - x0 > 3 ? 0.6 : 0;
    context.fillRect(x0, at * ROW + (ROW - BAR) / 2, Math.max(x1 - x0 - gap, 0.8), BAR);
    placed.push({ transfer, x0, x1: Math.max(x1, x0 + 2), row: at });
    const isSelected = state.selected?.kind === "transfer" && state.selected.pane === pane && state.selected.at === transfer;
    if (!isSelected && !(state.path && model.onPath.has(transfer))) return;
    context.strokeStyle = css(isSelected ? theme.ink : theme.accent);
    context.lineWidth = isSelected ? 2 : 1.5;
    context.strokeRect(x0, at * ROW + (ROW - BAR) / 2, Math.max(x1 - x0 - gap, 1), BAR);
  }

  /** Where the page has only some transfers, or none: how busy the link is with all of them. */
  function drawHeat(context: CanvasRenderingContext2D, theme: Theme, link: number, at: number): void {
    const width = model.scene.time_s / model.windows;
    for (let window = 0; window < model.windows; window++) {
      const part: [number, number] = [window * width, (window + 1) * width];
      const [x0, x1] = [Math.max(xOf(part[0]), GUTTER), xOf(part[1])];
      if (x1 < GUTTER || x0 > canvas.clientWidth) continue;
      context.fillStyle = css(heat(busyShare(model, link, part), theme), 0.55);
      context.fillRect(x0, at * ROW + 1, x1 - x0 + 0.5, ROW - 2);
    }
  }

  function drawPath(context: CanvasRenderingContext2D, theme: Theme): void {
    drawName(context, theme, "Critical path", model.transfers.path.length ? `${model.transfers.path.length}` : "", 0);
    for (const transfer of model.transfers.path) {
      const { start, sent, received } = model.transfers;
      const [x0, x1, x2] = [start[transfer], sent[transfer], received[transfer]].map(xOf);
      if (x2 < GUTTER || x0 > canvas.clientWidth) continue;
      context.fillStyle = css(theme.accent);
      context.fillRect(Math.max(x0, GUTTER), 2, Math.max(x1 - Math.max(x0, GUTTER) - 0.4, 0.8), BAR);
      context.fillStyle = css(theme.accent, 0.35);
      context.fillRect(Math.max(x1, GUTTER), 4, Math.max(x2 - Math.max(x1, GUTTER) - 0.4, 0), BAR - 4);
      placed.push({ transfer, x0, x1: Math.max(x2, x0 + 2), row: 0 });
    }
  }

  /** Draw what a selected transfer waited for, back to the start, and what waited for it. */
  function drawDependencies(context: CanvasRenderingContext2D, theme: Theme): void {
    const { selected } = store.state;
    if (selected?.kind !== "transfer" || selected.pane !== pane || selected.at >= model.transfers.count) return;
    const { cause } = model.transfers;
    context.lineWidth = 1.4;
    context.strokeStyle = css(theme.ink, 0.9);
    for (let at = selected.at; cause[at] !== NONE; at = cause[at]) connect(context, cause[at], at);
    context.strokeStyle = css(theme.accent, 0.9);
    for (const follower of followersOf(model, selected.at)) connect(context, selected.at, follower);
  }

  function connect(context: CanvasRenderingContext2D, from: number, to: number): void {
    const [one, other] = [from, to].map((transfer) => rowOfLink.get(firstLink(model, transfer)) ?? 0);
    const end = Math.min(endOf(model, from, to).end, model.transfers.start[to]);
    const [x0, y0] = [xOf(end), one * ROW + ROW / 2];
    const [x1, y1] = [xOf(model.transfers.start[to]), other * ROW + ROW / 2];
    if (Math.max(x0, x1) < GUTTER) return;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + 8, y0, x1 - 8, y1, x1, y1);
    context.stroke();
  }

  function under(event: MouseEvent): Placed | undefined {
    const box = host.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top + host.scrollTop];
    const at = Math.floor(y / ROW);
    return placed.find((bar) => bar.row === at && x >= bar.x0 - 1 && x <= bar.x1 + 1);
  }

  host.addEventListener("scroll", () => (stale = true));
  canvas.addEventListener("click", (event) => {
    const bar = under(event);
    if (bar) return store.set({ selected: { kind: "transfer", at: bar.transfer, pane } });
    const box = host.getBoundingClientRect();
    const at = Math.floor((event.clientY - box.top + host.scrollTop) / ROW) - ABOVE;
    if (at >= 0 && at < model.busiest.length && event.clientX - box.left < GUTTER) {
      store.set({ selected: { kind: "link", at: model.busiest[at], pane } });
    } else store.set({ selected: null });
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey && !event.altKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    const [from, to] = shownPart(store.state, longest);
    const width = to - from;
    const amount = event.deltaY || event.deltaX;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && !event.shiftKey) {
      return moveTo(from + (event.deltaX / 600) * width, width);
    }
    const box = canvas.getBoundingClientRect();
    const part = (event.clientX - box.left - GUTTER) / Math.max(box.width - GUTTER - 10, 1);
    const wider = Math.min(width * Math.exp(amount * 0.002), longest);
    moveTo(from + Math.min(Math.max(part, 0), 1) * (width - wider), wider);
  }, { passive: false });

  function moveTo(from: number, width: number): void {
    const start = Math.min(Math.max(from, 0), longest - width);
    store.set({ zoom: width >= longest * 0.999 ? null : [start, start + width] });
  }

  resize();
  return {
    draw,
    resize,
    note(changed) {
      if (["trees", "half", "phase", "step"].some((name) => changed.has(name as keyof State))) {
        mask = passing(model, store.state);
      }
      const but = new Set<keyof State>(["time", "playing", "duration"]);
      if ([...changed].some((name) => !but.has(name))) stale = true;
    },
    close: () => host.replaceChildren(),
  };
}

function isFiltered(state: State): boolean {
  return Boolean(state.trees) || state.half !== "both" || state.phase !== null || state.step !== null;
}

/** Return the transfers that waited for a transfer. */
export function followersOf(model: Model, transfer: number): number[] {
  const found: number[] = [];
  const { cause, count } = model.transfers;
  for (let at = 0; at < count && found.length < 200; at++) if (cause[at] === transfer) found.push(at);
  return found;
}

/** Return when a transfer let another go, and whether by its data, which the other sends on, or by leaving the link. */
export function endOf(model: Model, from: number, to: number): { end: number; isData: boolean } {
  const { lanes, sent, received } = model.transfers;
  const isData = lanes.target[laneOf(model.transfers, from)] === lanes.source[laneOf(model.transfers, to)];
  return { end: isData ? received[from] : sent[from], isData };
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

