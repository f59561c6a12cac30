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

/** Return the link at a pixel, or -1; `segments` are those of `places`, in their order. */
export function nearestLink(segments: Segments, places: Places, view: View, x: number, y: number): number {
  let best = -1;
  let least = 6;
  for (let link = 0; link + 1 < places.starts.length; link++) {
    for (let at = places.starts[link]; at < places.starts[link + 1]; at++) {
      const far = distance(pixels(segments, at, view), x, y);
      if (far < least) [best, least] = [link, far];
    }
  }
  return best;
}

function distance([x0, y0, x1, y1]: number[], x: number, y: number): number {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const along = ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1);
  const part = Math.min(Math.max(along, 0), 1);
  return Math.hypot(x0 + part * dx - x, y0 + part * dy - y);
}
