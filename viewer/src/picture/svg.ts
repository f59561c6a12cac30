// Writes a drawing as an SVG, for papers and slides.
import { css, type Rgb } from "../colours";
import { outline } from "./canvas";
import { CIRCLE, pixels, type Drawing, type Marks, type Segments, type View } from "./drawing";
import { fittingLabels, placeOf, shortLabel } from "./labels";

export function svgOf(drawing: Drawing, view: View, ink: Rgb, paper: Rgb): string {
  const parts = drawing.layers.flatMap((layer) =>
    "segments" in layer ? segmentsOf(layer.segments, view) : marksOf(layer.marks, view),
  );
  const labels = fittingLabels(drawing.labels, view).map((label) => {
    const [x, y] = placeOf(label, view);
    return `<text x="${short(x)}" y="${short(y + 4)}">${escaped(shortLabel(label.text))}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${view.width} ${view.height}" ` +
      `width="${view.width}" height="${view.height}">`,
    `<rect width="100%" height="100%" fill="${css(paper)}"/>`,
    ...parts,
    `<g font-family="sans-serif" font-size="11" text-anchor="middle" fill="${css(ink)}" ` +
      `stroke="${css(paper)}" stroke-width="3" stroke-linejoin="round" paint-order="stroke">`,
    ...labels,
    "</g>",
    "</svg>",
  ].join("\n");
}

function segmentsOf(segments: Segments, view: View): string[] {
  return Array.from({ length: segments.count }, (_, at) => {
    const [x0, y0, x1, y1] = pixels(segments, at, view).map(short);
    const stroke = `${filled("stroke", segments.colours, at)} stroke-width="${short(segments.widths[at])}"`;
    return `<line x1="${x0}" y1="${y0}" x2="${x1}" y2="${y1}" ${stroke}/>`;
  });
}

function marksOf(marks: Marks, view: View): string[] {
  return Array.from({ length: marks.count }, (_, at) => {
    const points = outline(marks, at, view);
    const fill = filled("fill", marks.colours, at);
    if (points) return `<polygon points="${points.map((point) => point.map(short).join(",")).join(" ")}" ${fill}/>`;
    const [x, y] = pixels(marks, at, view).map(short);
    const stroke = `fill="none" stroke-width="2.5" ${filled("stroke", marks.colours, at)}`;
    const look = marks.shapes[at] === CIRCLE ? stroke : fill;
    return `<circle cx="${x}" cy="${y}" r="${short(marks.sizes[at] / 2)}" ${look}/>`;
  });
}

/** Return a colour as all programs read it: the opacity apart. */
function filled(how: "fill" | "stroke", colours: Uint8Array, at: number): string {
  const [red, green, blue, alpha] = colours.subarray(4 * at, 4 * at + 4);
  const opacity = alpha < 255 ? ` ${how}-opacity="${short(alpha / 255)}"` : "";
  return `${how}="rgb(${red},${green},${blue})"${opacity}`;
}

function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function escaped(text: string): string {
  const named: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (character) => named[character]);
}
