// Finds what is under the pointer.
import { pixels, type Segments, type View } from "../picture/drawing";
import type { Places } from "../picture/places";

/** Return the node at a pixel, or -1. */
export function nearestNode(places: Places, view: View, size: number, x: number, y: number): number {
  let best = -1;
  let least = size / 2 + 4;
  for (let node = 0; 2 * node < places.nodes.length; node++) {
    const dx = places.nodes[2 * node] * view.scale + view.x - x;
    const dy = places.nodes[2 * node + 1] * view.scale + view.y - y;
    const far = Math.hypot(dx, dy);
    if (far < least) [best, least] = [node, far];
  }
  return best;
}

/** Return the segment at a pixel, or -1. */
export function nearestSegment(segments: Segments, view: View, x: number, y: number): number {
  let best = -1;
  let least = 6;
  for (let at = 0; at < segments.count; at++) {
    const far = distance(pixels(segments, at, view), x, y);
    if (far < least) [best, least] = [at, far];
  }
  return best;
}

/** Return the link to which a segment belongs, or -1 for none. */
export function linkOf({ starts }: Places, segment: number): number {
  return segment < 0 ? -1 : starts.findIndex((start) => start > segment) - 1;
}

function distance([x0, y0, x1, y1]: number[], x: number, y: number): number {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const along = ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1);
  const part = Math.min(Math.max(along, 0), 1);
  return Math.hypot(x0 + part * dx - x, y0 + part * dy - y);
}
