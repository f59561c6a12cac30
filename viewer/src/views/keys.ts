// What keys do; the help (`help.ts`) lists them.
import type { State, Store } from "../state";
import { toggle } from "./transport";

export function onKey(event: KeyboardEvent, store: Store, longest: number, help: () => void, refit: () => void): void {
  if (document.querySelector("dialog[open]")) return; // its own keys close it
  const target = event.target as HTMLElement;
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) && (target as HTMLInputElement).type !== "range";
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.tagName === "BUTTON" && (event.key === " " || event.key === "Enter")) return;
  const change = changeOf(event.key, store.state, longest);
  if (event.key === " ") toggle(store, longest);
  else if (event.key === "?") help();
  else if (event.key === "0") {
    refit();
    store.set({ zoom: null, window: null });
  }
  else if (change) store.set(change);
  else return;
  event.preventDefault();
}

function changeOf(key: string, state: State, longest: number): Partial<State> | null {
  const at = (moment: number) => ({ time: Math.min(Math.max(moment, 0), longest), playing: false });
  switch (key) {
    case "ArrowLeft":
      return at(state.time - longest / 100);
    case "ArrowRight":
      return at(state.time + longest / 100);
    case "Home":
      return at(0);
    case "End":
      return at(longest);
    case "p":
      return { path: !state.path };
    case "l":
      return { colour: state.colour === "limit" ? "busy" : "limit" };
    case "b":
      return { colour: "busy" };
    case "t":
      return { colour: "tree" };
    case "s":
      return { colour: "step" };
    case "c":
      return { colour: "chunk" };
    case "d":
      return { theme: state.theme === "dark" ? "light" : "dark" };
    case "Escape":
      return { selected: null, trees: null, half: "both", phase: null, step: null };
    default:
      return null;
  }
}
