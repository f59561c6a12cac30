// What leaves the page as a file: a PNG of what is on the screen, and an SVG of each network's picture.
import { css, themeOf } from "./colours";
import { svgOf } from "./picture/svg";
import type { State } from "./state";
import { make } from "./views/elements";
import type { Pane } from "./views/pane";

export function savePng(panes: Pane[], state: State): void {
  picture(panes, state).toBlob((blob) => blob && save(blob, "treefold.png"));
}

export function saveSvg(panes: Pane[], state: State): void {
  const theme = themeOf(state.theme);
  panes.forEach((pane, at) => {
    const text = svgOf(pane.drawing(), pane.view(), theme.ink, theme.paper);
    save(new Blob([text], { type: "image/svg+xml" }), at ? `treefold-${at + 1}.svg` : "treefold.svg");
  });
}

/** Put the pictures of all panes beside each other, with their labels. */
function picture(panes: Pane[], state: State): HTMLCanvasElement {
  const theme = themeOf(state.theme);
  for (const pane of panes) pane.draw(true); // what the GPU has drawn is gone after a frame
  const canvases = [...document.querySelectorAll<HTMLCanvasElement>(".picture canvas:first-child")];
  const labels = [...document.querySelectorAll<HTMLCanvasElement>(".picture canvas.labels")];
  const all = make("canvas");
  all.width = canvases.reduce((sum, canvas) => sum + canvas.width, 0);
  all.height = Math.max(...canvases.map((canvas) => canvas.height)) + 28 * devicePixelRatio;
  const context = all.getContext("2d")!;
  context.fillStyle = css(theme.paper);
  context.fillRect(0, 0, all.width, all.height);
  let x = 0;
  canvases.forEach((canvas, at) => {
    context.drawImage(canvas, x, 28 * devicePixelRatio);
    context.drawImage(labels[at], x, 28 * devicePixelRatio);
    context.fillStyle = css(theme.ink);
    context.font = `${13 * devicePixelRatio}px system-ui, sans-serif`;
    context.fillText(panes[at].model.scene.label, x + 12 * devicePixelRatio, 19 * devicePixelRatio);
    x += canvas.width;
  });
  return all;
}

function save(blob: Blob, name: string): void {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
