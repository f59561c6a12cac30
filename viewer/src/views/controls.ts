// What can be chosen: colours, trees, halves, phases and steps, the scenes, and what leaves the page as a file.
import type { Document } from "../data/format";
import type { Model } from "../model";
import { switchedTo, type ColourBy, type Half, type Store } from "../state";
import { choice, make } from "./elements";

interface Exports {
  png: () => void;
  svg: () => void;
}

export function fillControls(
  host: HTMLElement, document: Document, models: Model[], store: Store, exports: Exports, help: () => void,
): void {
  const { state } = store;
  const parts: Node[] = [...scenes(document, store), colours(models, store), trees(models, store)];
  const halves = ["both", "reduce", "broadcast"].map((half): [string, string] => [half, half]);
  parts.push(choice("Half", "Which half of the trees is shown", halves, state.half,
    (half) => store.set({ half: half as Half })));
  const phases = Math.max(...models.map((model) => model.scene.phases));
  const setPhase = (phase: number | null) => store.set({ phase });
  if (phases > 1) parts.push(numbered("Phase", "Which phase is shown", state.phase, [0, phases - 1], setPhase));
  const steps = Math.max(...models.map((model) => model.scene.steps));
  const setStep = (step: number | null) => store.set({ step });
  if (steps > 0) parts.push(numbered("Step", "Which step is shown", state.step, [1, steps], setStep));
  parts.push(buttons(store, exports, help));
  // Who uses the keyboard goes on where they were, though the elements are new.
  const active = window.document.activeElement;
  const focused = host.contains(active) ? active?.getAttribute("title") : null;
  host.replaceChildren(...parts);
  if (focused) host.querySelector<HTMLElement>(`[title="${CSS.escape(focused)}"]`)?.focus();
}

function buttons(store: Store, exports: Exports, help: () => void): Node {
  const other = store.state.theme === "dark" ? "light" : "dark";
  return make("span", { class: "group" },
    make("button", { title: "Save what is on the screen as PNG", click: exports.png }, "PNG"),
    make("button", { title: "Save the network's picture as SVG", click: exports.svg }, "SVG"),
    make("button", { title: "Light or dark (d)", click: () => store.set({ theme: other }) },
      other === "light" ? "Light" : "Dark"),
    make("button", { title: "Keys and what is shown (?)", click: help }, "?"),
  );
}

function scenes(document: Document, store: Store): Node[] {
  if (document.scenes.length < 2) return [];
  const { shown } = store.state;
  const names = document.scenes.map((scene, at): [string, string] => [String(at), scene.label]);
  const set = (pane: number, value: string) => {
    const next = value === "" ? shown.slice(0, 1) : Object.assign([...shown], { [pane]: Number(value) });
    store.set(switchedTo(next));
  };
  return [
    choice("Plan", "The plan that is shown", names, String(shown[0]), (value) => set(0, value)),
    choice("beside", "A second plan on the same clock", [["", "none"], ...names], String(shown[1] ?? ""),
      (value) => set(1, value)),
  ];
}

/** Return what colours can mean: names and titles. */
export function offeredColours(models: Model[]): [string, string][] {
  const options: [string, string][] = [["busy", "busy share of links"], ["tree", "tree"]];
  if (models.some((model) => model.scene.steps > 0)) options.push(["step", "step"]);
  if (models.some((model) => model.hasChunks)) options.push(["chunk", "chunk"]);
  options.push(["limit", "limiting links"]);
  if (models.some((model) => model.findings)) {
    options.push(["worth", "worth of more bandwidth"], ["failures", "cost of failures"]);
  }
  const series = new Map(models.flatMap((model) => model.scene.series.map((each) => [each.name, each.title] as const)));
  for (const [name, title] of series) options.push([`series:${name}`, title]);
  return options;
}

function colours(models: Model[], store: Store): Node {
  return choice("Colour by", "What colours mean", offeredColours(models), store.state.colour,
    (value) => store.set({ colour: value as ColourBy }));
}

function trees(models: Model[], store: Store): Node {
  const { state } = store;
  const change = (event: Event) => {
    const input = event.target as HTMLInputElement;
    const list = readTrees(input.value, models);
    const last = Math.max(...models.map((model) => model.scene.trees)) - 1;
    const help = `Trees are 0 to ${last}: write numbers such as 0-3,7, the name of a root, or nothing for all`;
    input.setCustomValidity(list === undefined ? help : "");
    input.reportValidity();
    if (list !== undefined) store.set({ trees: list, selected: null });
  };
  const title = "Numbers of trees such as 0-3,7, or the name of their root; all if it is empty";
  const value = shortList(state.trees);
  const input = make("input", { type: "text", id: "trees", size: 10, title, placeholder: "all", value, change });
  return make("label", {}, "Trees", input);
}

/** Read a list of trees such as `0-3,7`, or the name of a node that is their root; null is all, undefined is wrong. */
function readTrees(text: string, models: Model[]): number[] | string | null | undefined {
  const trimmed = text.trim();
  if (trimmed === "" || trimmed === "all") return null;
  const most = Math.max(...models.map((model) => model.scene.trees));
  const isRoot = models.some(({ network, transfers }) => {
    const node = network.nodes.indexOf(trimmed);
    return node >= 0 && (transfers.trees.root as Uint32Array).includes(node);
  });
  if (isRoot) return trimmed;
  const found: number[] = [];
  for (const part of trimmed.split(",")) {
    const range = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(part);
    if (!range) return undefined;
    const [first, last] = [Number(range[1]), Number(range[2] ?? range[1])];
    if (last < first || last >= most) return undefined;
    for (let tree = first; tree <= last; tree++) found.push(tree);
  }
  return [...new Set(found)].sort((a, b) => a - b);
}

/** Write a list of trees as briefly as one would. */
export function shortList(trees: number[] | string | null): string {
  if (!trees || typeof trees === "string") return trees ?? "";
  const parts: string[] = [];
  for (let at = 0; at < trees.length; at++) {
    const first = at;
    while (trees[at + 1] === trees[at] + 1) at++;
    parts.push(first === at ? `${trees[at]}` : `${trees[first]}-${trees[at]}`);
  }
  return parts.join(",");
}

function numbered(
  label: string, title: string, value: number | null, [min, max]: [number, number],
  chosen: (value: number | null) => void,
): Node {
  const change = (event: Event) => {
    const { value: text, validity } = event.target as HTMLInputElement;
    if (text === "") chosen(null);
    else if (validity.valid) chosen(Number(text));
    else (event.target as HTMLInputElement).reportValidity();
  };
  const look = { placeholder: "all", title: `${title}: ${min} to ${max}` };
  return make("label", {}, label, make("input", { type: "number", min, max, ...look, value: value ?? "", change }));
}
