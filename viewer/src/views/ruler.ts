// The ruler above the timelines: click for a moment, drag for a window of time.
import { ticks } from "d3-array";

import { css, themeOf, type Theme } from "../colours";
import type { Store } from "../state";
import { time } from "../units";
import { GUTTER, shownPart } from "./rows";

interface Ruler {
  draw(): void;
  resize(): void;
}

/** Where the moments of the shown part of the time are. */
interface Scale {
  part: [number, number];
  width: number;
  xOf(moment: number): number;
}

export function rulerIn(host: HTMLElement, store: Store, longest: () => number): Ruler {
  const canvas = host.appendChild(document.createElement("canvas"));
  let drawn = "";
  listen(canvas, host, store, longest);
  function draw(): void {
    const scale = scaleOf(host, store, longest());
    const { time: moment, window: chosen, theme } = store.state;
    const now = JSON.stringify([moment, chosen, theme, scale, devicePixelRatio]);
    if (now === drawn) return;
    drawn = now;
    drawRuler(canvas, host, store, scale);
  }
  function resize(): void {
    canvas.width = Math.max(1, Math.round(host.clientWidth * devicePixelRatio));
    canvas.height = Math.max(1, Math.round(host.clientHeight * devicePixelRatio));
    drawn = "";
    draw();
  }
  return { draw, resize };
}

function scaleOf(host: HTMLElement, store: Store, longest: number): Scale {
  const part = shownPart(store.state, longest);
  const width = Math.max(host.clientWidth - GUTTER - 10, 1);
  return { part, width, xOf: (moment) => GUTTER + ((moment - part[0]) / (part[1] - part[0])) * width };
}

/** Set the moment where the ruler is clicked, and the window over which it is dragged. */
function listen(canvas: HTMLCanvasElement, host: HTMLElement, store: Store, longest: () => number): void {
  const momentAt = (event: PointerEvent) => {
    const { part: [from, to], width } = scaleOf(host, store, longest());
    const x = event.clientX - host.getBoundingClientRect().left - GUTTER;
    return Math.min(Math.max(from + (x / width) * (to - from), 0), longest());
  };
  let begun: { moment: number; x: number } | null = null;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    begun = { moment: momentAt(event), x: event.clientX };
    store.set({ time: begun.moment, playing: false });
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!begun || Math.abs(event.clientX - begun.x) < 5) return;
    const now = momentAt(event);
    store.set({ window: [Math.min(begun.moment, now), Math.max(begun.moment, now)], time: now });
  });
  canvas.addEventListener("pointerup", () => (begun = null));
  canvas.addEventListener("dblclick", () => store.set({ window: null }));
}

function drawRuler(canvas: HTMLCanvasElement, host: HTMLElement, { state }: Store, scale: Scale): void {
  const context = canvas.getContext("2d")!;
  const theme = themeOf(state.theme);
  const height = host.clientHeight;
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, host.clientWidth, height);
  if (state.window) {
    const [x0, x1] = state.window.map(scale.xOf);
    context.fillStyle = css(theme.accent, 0.25);
    context.fillRect(Math.max(x0, GUTTER), 0, x1 - Math.max(x0, GUTTER), height);
  }
  drawMarks(context, theme, scale, height);
  drawMoment(context, theme, scale.xOf(state.time), height);
}

function drawMarks(context: CanvasRenderingContext2D, theme: Theme, scale: Scale, height: number): void {
  const { part, width, xOf } = scale;
  context.font = "10.5px system-ui, sans-serif";
  context.textBaseline = "top";
  context.textAlign = "center";
  context.fillStyle = css(theme.ink);
  const marks = ticks(...part, Math.max(Math.floor(width / 110), 2));
  const most = Math.max(marks[marks.length - 1] / (marks[1] - marks[0]), 1) || 1;
  const digits = Math.max(3, 1 + Math.ceil(Math.log10(most)));
  for (const moment of marks) {
    context.fillRect(xOf(moment), height - 5, 1, 5);
    context.fillText(time(moment, digits), Math.min(Math.max(xOf(moment), GUTTER + 14), GUTTER + width - 14), 3);
  }
}

function drawMoment(context: CanvasRenderingContext2D, theme: Theme, x: number, height: number): void {
  if (x < GUTTER - 1) return;
  context.fillStyle = css(theme.accent);
  context.beginPath();
  context.moveTo(x - 5, height - 9);
  context.lineTo(x + 5, height - 9);
  context.lineTo(x, height);
  context.fill();
}
