// What the page shows: one value, kept in the hash of the address, so that a link brings back the same view.

export type ColourBy = "busy" | "tree" | "step" | "chunk" | "limit" | "worth" | "failures" | `series:${string}`;
export type Half = "both" | "reduce" | "broadcast";
export type Selected = { kind: "node" | "link" | "transfer" | "tree"; at: number; pane: number };
/** What is under the pointer, and where the pointer is. */
export type Pointed = Selected & { x: number; y: number };

/** How a picture is looked at: how much larger than at first, what of its layout is in the middle, how it is turned. */
export interface Camera {
  zoom: number;
  x: number;
  y: number;
  yaw: number;
  pitch: number;
}

export const [LEAST_ZOOM, MOST_ZOOM] = [0.3, 60];

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
  /** How the picture of each pane is looked at; all of it is shown if there is none. */
  cameras: (Camera | null)[];
  selected: Selected | null;
  /** What is under the pointer; no link brings it back. */
  pointed: Pointed | null;
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
    cameras: [],
    selected: null,
    pointed: null,
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
  const filters = { trees: null, step: null, phase: null };
  const things = { selected: null, pointed: null, ...filters };
  return { shown, time: 0, playing: false, ...things, zoom: null, window: null, cameras: [] };
}

/** Return what must change so that all moments lie within the time of what is shown. */
export function within(state: State, longest: number): Partial<State> {
  const isIn = (part: [number, number] | null) =>
    !part || (part[1] <= longest * 1.001 && part[1] - part[0] >= longest * 1e-6);
  return {
    time: Math.min(state.time, longest),
    zoom: isIn(state.zoom) ? state.zoom : null,
    window: isIn(state.window) ? state.window : null,
  };
}

function same(one: unknown, other: unknown): boolean {
  return Object.is(one, other) || JSON.stringify(one) === JSON.stringify(other);
}

/** What is not kept. */
const PASSING = new Set<keyof State>(["playing", "pointed"]);

/** Return the hash that brings back a state; what is as at first is left out. */
export function hashOf(state: State, first: State): string {
  const parts = new URLSearchParams();
  for (const name of Object.keys(state) as (keyof State)[]) {
    if (PASSING.has(name) || same(state[name], first[name])) continue;
    parts.set(name, JSON.stringify(state[name]));
  }
  return parts.toString();
}

/** Return what a hash changes of a state. What it says wrongly, or of what the page lacks, is passed over. */
export function fromHash(hash: string, first: State, scenes: number): Partial<State> {
  const change: Record<string, unknown> = {};
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!Object.hasOwn(first, name)) continue;
    try {
      const value: unknown = JSON.parse(text);
      if (CHECKS[name as keyof State](value, scenes)) change[name] = value;
    } catch {
      // A hash that somebody typed; the rest of it may be right.
    }
  }
  return change as Partial<State>;
}

const COLOUR = /^(busy|tree|step|chunk|limit|worth|failures|series:[\w-]+)$/;

type Check = (value: unknown, scenes: number) => boolean;

const isWhole = (value: unknown, below = Infinity) =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) < below;
const isList = (value: unknown, check: (each: unknown) => boolean): value is unknown[] =>
  Array.isArray(value) && value.every(check);
const isPart: Check = (value) =>
  value === null || (isList(value, Number.isFinite) && value.length === 2 && Number(value[0]) < Number(value[1]));
const isNumber: Check = (value) => value === null || isWhole(value);

const CHECKS: Record<keyof State, Check> = {
  shown: (value, scenes) => isList(value, (each) => isWhole(each, scenes)) && [1, 2].includes(value.length),
  time: (value) => Number.isFinite(value) && Number(value) >= 0,
  playing: () => false,
  pointed: () => false,
  duration: (value) => Number.isFinite(value) && Number(value) > 0,
  window: isPart,
  zoom: isPart,
  colour: (value) => COLOUR.test(String(value)),
  trees: (value) => value === null || typeof value === "string" || isList(value, (each) => isWhole(each)),
  half: (value) => ["both", "reduce", "broadcast"].includes(String(value)),
  phase: isNumber,
  step: isNumber,
  path: (value) => typeof value === "boolean",
  cameras: (value) => isList(value, (each) => each === null || isCamera(each)) && value.length <= 2,
  selected: (value) => value === null || isSelected(value),
  theme: (value) => value === "light" || value === "dark",
};

function isSelected(value: unknown): boolean {
  const { kind, at, pane } = (value ?? {}) as Selected;
  return ["node", "link", "transfer", "tree"].includes(kind) && isWhole(at) && [0, 1].includes(pane);
}

function isCamera(value: unknown): boolean {
  const { zoom, x, y, yaw, pitch } = (value ?? {}) as Camera;
  return [zoom, x, y, yaw, pitch].every(Number.isFinite) && zoom >= LEAST_ZOOM && zoom <= MOST_ZOOM;
}
