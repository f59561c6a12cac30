// The ruler above the timelines: click for a moment, drag for a window of time.
import { ticks } from "d3-array";

import { css, themeOf } from "../colours";
import type { Store } from "../state";
import { time } from "../units";
import { GUTTER, shownPart } from "./timeline";

interface Ruler {
  draw(): void;
  resize(): void;
}

export function rulerIn(host: HTMLElement, store: Store, longest: () => number): Ruler {
  const canvas = host.appendChild(document.createElement("canvas"));
  const width = () => Math.max(host.clientWidth - GUTTER - 10, 1);
  const part = () => shownPart(store.state, longest());
  const xOf = (moment: number) => GUTTER + ((moment - part()[0]) / (part()[1] - part()[0])) * width();
  const momentAt = (event: PointerEvent) => {
    const x = event.clientX - host.getBoundingClientRect().left - GUTTER;
    const [from, to] = part();
    return Math.min(Math.max(from + (x / width()) * (to - from), 0), longest());
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

  let drawn = "";
  function draw(): void {
    const { time: moment, window: chosen, theme: name } = store.state;
    const now = JSON.stringify([moment, chosen, name, part(), host.clientWidth, devicePixelRatio]);
    if (now === drawn) return;
    drawn = now;
    const context = canvas.getContext("2d")!;
    const theme = themeOf(store.state.theme);
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, host.clientWidth, host.clientHeight);
    if (store.state.window) {
      const [x0, x1] = store.state.window.map(xOf);
      context.fillStyle = css(theme.accent, 0.25);
      context.fillRect(Math.max(x0, GUTTER), 0, x1 - Math.max(x0, GUTTER), host.clientHeight);
    }
    context.font = "10.5px system-ui, sans-serif";
    context.textBaseline = "top";
    context.textAlign = "center";
    context.fillStyle = css(theme.ink);
    const marks = ticks(...part(), Math.max(Math.floor(width() / 110), 2));
    const digits = Math.max(3, 1 + Math.ceil(Math.log10(Math.max(marks[marks.length - 1] / (marks[1] - marks[0]), 1) || 1)));
    for (const moment of marks) {
      context.fillRect(xOf(moment), host.clientHeight - 5, 1, 5);
      context.fillText(time(moment, digits), Math.min(Math.max(xOf(moment), GUTTER + 14), host.clientWidth - 24), 3);
    }
    const x = xOf(store.state.time);
    if (x < GUTTER - 1) return;
    context.fillStyle = css(theme.accent);
    context.beginPath();
    context.moveTo(x - 5, host.clientHeight - 9);
    context.lineTo(x + 5, host.clientHeight - 9);
    context.lineTo(x, host.clientHeight);
    context.fill();
  }

  function resize(): void {
    canvas.width = Math.max(1, Math.round(host.clientWidth * devicePixelRatio));
    canvas.height = Math.max(1, Math.round(host.clientHeight * devicePixelRatio));
    drawn = "";
    draw();
  }
  return { draw, resize };
}
