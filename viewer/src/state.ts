// What the page shows: one value, kept in the hash of the address, so that a link brings back the same view.

export type ColourBy = "busy" | "tree" | "step" | "chunk" | "limit" | "worth" | "failures" | `series:${string}`;
export type Half = "both" | "reduce" | "broadcast";
export type Selected = { kind: "node" | "link" | "transfer" | "tree"; at: number; pane: number };

export interface State {
  /** The scenes that are shown, one or two. */
  shown: number[];
  /** The moment, in seconds. */
  time: number;
  playing: boolean;
  /** How many seconds of a watch one run of the plan takes. */
  duration: number;
  /** The part of the time that heat is about, in seconds; all if null. */
  window: [number, number] | null;
  /** The part of the time that the timeline shows; all if null. */
  zoom: [number, number] | null;
  colour: ColourBy;
  /** The trees that are shown: their numbers, or the name of the node that is their root; all if null. */
  trees: number[] | string | null;
  half: Half;
  phase: number | null;
  step: number | null;
  path: boolean;
  selected: Selected | null;
  theme: "light" | "dark";
}

export function firstState(shown: number[], colour: ColourBy): State {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return {
    shown,
    time: 0,
    playing: false,
    duration: 12,
    window: null,
    zoom: null,
    colour,
    trees: null,
    half: "both",
    phase: null,
    step: null,
    path: false,
    selected: null,
    theme: dark ? "dark" : "light",
  };
}

type Listener = (state: State, changed: Set<keyof State>) => void;

/** The state of a page and those who want to know of its changes. */
export class Store {
  private listeners: Listener[] = [];
  constructor(public state: State) {}

  listen(listener: Listener): void {
    this.listeners.push(listener);
  }

  set(change: Partial<State>): void {
    const names = Object.keys(change) as (keyof State)[];
    const changed = new Set(names.filter((name) => !same(change[name], this.state[name])));
    if (!changed.size) return;
    this.state = { ...this.state, ...change };
    for (const listener of this.listeners) listener(this.state, changed);
  }
}

/** Return the change to other scenes: what names a thing or a moment of the old ones is forgotten. */
export function switchedTo(shown: number[]): Partial<State> {
  return { shown, time: 0, playing: false, selected: null, trees: null, step: null, phase: null, zoom: null, window: null };
}

/** Return what must change so that all moments lie within the time of what is shown. */
export function within(state: State, longest: number): Partial<State> {
  const isIn = (part: [number, number] | null) => !part || (part[1] <= longest * 1.001 && part[1] - part[0] >= longest * 1e-6);
  return {
    time: Math.min(state.time, longest),
    zoom: isIn(state.zoom) ? state.zoom : null,
    window: isIn(state.window) ? state.window : null,
  };
}

function same(one: unknown, other: unknown): boolean {
  return Object.is(one, other) || JSON.stringify(one) === JSON.stringify(other);
}

/** Return the hash that brings back a state; what is as at first is left out. */
export function hashOf(state: State, first: State): string {
  const parts = new URLSearchParams();
  for (const name of Object.keys(state) as (keyof State)[]) {
    if (name === "playing" || same(state[name], first[name])) continue;
    parts.set(name, JSON.stringify(state[name]));
  }
  return parts.toString();
}

/** Return what a hash changes of a state. What it says wrongly, or of what the page lacks, is passed over. */
export function fromHash(hash: string, first: State, scenes: number): Partial<State> {
  const change: Record<string, unknown> = {};
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!(name in first) || name === "playing") continue;
    try {
      const value: unknown = JSON.parse(text);
      if (isValid(name as keyof State, value, scenes)) change[name] = value;
    } catch {
      // A hash that somebody typed; the rest of it may be right.
    }
  }
  return change as Partial<State>;
}

const COLOUR = /^(busy|tree|step|chunk|limit|worth|failures|series:[\w-]+)$/;

function isValid(name: keyof State, value: unknown, scenes: number): boolean {
  const whole = (each: unknown, below = Infinity) => Number.isInteger(each) && Number(each) >= 0 && Number(each) < below;
  const numbers = (each: unknown, count: number) =>
    Array.isArray(each) && each.length === count && each.every(Number.isFinite) && each[0] < each[1];
  switch (name) {
    case "shown":
      return Array.isArray(value) && [1, 2].includes(value.length) && value.every((each) => whole(each, scenes));
    case "time":
      return Number.isFinite(value) && Number(value) >= 0;
    case "duration":
      return Number.isFinite(value) && Number(value) > 0;
    case "window":
    case "zoom":
      return value === null || numbers(value, 2);
    case "colour":
      return COLOUR.test(String(value));
    case "trees":
      return value === null || typeof value === "string" || (Array.isArray(value) && value.every((each) => whole(each)));
    case "half":
      return ["both", "reduce", "broadcast"].includes(String(value));
    case "phase":
    case "step":
      return value === null || whole(value);
    case "path":
      return typeof value === "boolean";
    case "theme":
      return value === "light" || value === "dark";
    case "selected":
      return value === null || isSelected(value);
    default:
      return false;
  }
}

function isSelected(value: unknown): boolean {
  const { kind, at, pane } = (value ?? {}) as Selected;
  return ["node", "link", "transfer", "tree"].includes(kind) && Number.isInteger(at) && at >= 0 && [0, 1].includes(pane);
}
