// What leaves the page as a file: a PNG of what is on the screen, and an SVG of each network's picture.
import { css, themeOf } from "./colours";
import { svgOf } from "./picture/svg";
import type { State } from "./state";
import { make } from "./views/elements";
import type { Pane } from "./views/pane";

export function savePng(app: HTMLElement, panes: Pane[], state: State): void {
  for (const pane of panes) pane.draw(true); // what the GPU has drawn is gone after a frame
  screenOf(app, state).toBlob((blob) => blob && save(blob, "treefold.png"));
}

export function saveSvg(panes: Pane[], state: State): void {
  const theme = themeOf(state.theme);
  panes.forEach((pane, at) => {
    const text = svgOf(pane.drawing(), pane.view(), theme.ink, theme.paper);
    save(new Blob([text], { type: "image/svg+xml" }), at ? `treefold-${at + 1}.svg` : "treefold.svg");
  });
}

/** The parts of the page that are on its picture, from the top; what is there to be pressed only is not. */
const PARTS = ["h1", ".stage", ".panel", ".moment", ".ruler", ".timelines"];
const LEFT_OUT = "button:not(.row, .chip), select, input";

/** Copy what is on the screen: each canvas, line and word at its place. */
function screenOf(app: HTMLElement, state: State): HTMLCanvasElement {
  const all = make("canvas", { width: innerWidth * devicePixelRatio, height: innerHeight * devicePixelRatio });
  const context = all.getContext("2d")!;
  context.scale(devicePixelRatio, devicePixelRatio);
  context.fillStyle = css(themeOf(state.theme).paper);
  context.fillRect(0, 0, innerWidth, innerHeight);
  for (const name of PARTS) {
    for (const part of app.querySelectorAll<HTMLElement>(name)) copyPart(context, part);
  }
  return all;
}

function copyPart(context: CanvasRenderingContext2D, part: HTMLElement): void {
  const { x, y, width, height } = part.getBoundingClientRect();
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  copy(context, part);
  context.restore();
}

/** Copy an element and what is in it. */
function copy(context: CanvasRenderingContext2D, element: HTMLElement): void {
  if (element.hidden || element.matches(LEFT_OUT)) return;
  const { x, y, width, height } = element.getBoundingClientRect();
  const look = getComputedStyle(element);
  context.fillStyle = look.backgroundColor;
  context.fillRect(x, y, width, height);
  if (element instanceof HTMLCanvasElement) context.drawImage(element, x, y, width, height);
  for (const child of element.childNodes) {
    if (child instanceof Text) copyWords(context, child, look);
    else if (child instanceof HTMLElement) copy(context, child);
  }
}

/** Copy a text word by word, so that its lines break where they do on the screen. */
function copyWords(context: CanvasRenderingContext2D, text: Text, look: CSSStyleDeclaration): void {
  context.font = `${look.fontWeight} ${look.fontSize} ${look.fontFamily}`;
  context.fillStyle = look.color;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  const ascent = context.measureText("x").fontBoundingBoxAscent;
  const range = document.createRange();
  for (const word of text.data.matchAll(/\S+/g)) {
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    const { x, y } = range.getBoundingClientRect();
    context.fillText(word[0], x, Math.round(y + ascent));
  }
}

function save(blob: Blob, name: string): void {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
