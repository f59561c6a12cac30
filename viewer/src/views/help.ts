// What the keys do, and what the picture means.
import { make } from "./elements";

const KEYS: [string, string][] = [
  ["space", "play or pause"],
  ["← →", "a hundredth of the time back or on"],
  ["Home, End", "to the start, to the end"],
  ["p", "the critical path: why it takes as long as it takes"],
  ["l", "the links that limit every plan on this network"],
  ["b, t, s, c", "colour by busy share, tree, step, chunk"],
  ["d", "light or dark"],
  ["0", "fit the picture again, and show all of the time"],
  ["Escape", "select nothing, show all trees"],
  ["?", "this help"],
];

const MEANINGS = [
  "Discs are accelerators, squares are switches, and diamonds are switches that reduce; a ring marks a place on a map "
    + "that is guessed. A cable has a line for each direction, on the right-hand side "
    + "as one travels, and a wider line has more bandwidth.",
  "Arrows are transfers on their way. They are black, or white in the dark, unless colours mean the tree, step or "
    + "chunk.",
  "Each row below is a link, the busiest first, and each bar a transfer: blue ones carry partial sums towards a root, "
    + "orange ones results from it, unless colours mean the tree, step or chunk. "
    + "Click a transfer to see what it waited for and what waited for it. "
    + "Shift and the wheel zoom in time; drag on the ruler to see how busy links are in a part of the time.",
  "Point at a tree to see it alone: an edge of a drawn tree, its colour in the legend, or its button at the side.",
  "The wheel zooms, a drag moves the picture, or turns it if it has three dimensions; Shift then moves it.",
  "The address of this page keeps what you see, zoomed and turned as it is: copy it to show the same to others.",
];

export function helpDialog(): HTMLDialogElement {
  const rows = KEYS.map(([key, meaning]) => make("tr", {}, make("th", {}, key), make("td", {}, meaning)));
  const dialog = make("dialog", { class: "help" });
  dialog.append(
    make("h2", {}, "What you see"),
    ...MEANINGS.map((meaning) => make("p", {}, meaning)),
    make("h2", {}, "Keys"),
    make("table", {}, ...rows),
    make("button", { click: () => dialog.close() }, "Close"),
  );
  return dialog;
}
