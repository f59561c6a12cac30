// Play, the moment, and how fast time goes.
import type { Store } from "../state";
import { time } from "../units";
import { choice, make } from "./elements";

interface Transport {
  note(): void;
}

export function transportIn(host: HTMLElement, store: Store, longest: () => number): Transport {
  const play = make("button", { class: "play", title: "Play (space)", click: () => toggle(store, longest()) });
  const slider = make("input", {
    type: "range", min: 0, max: 100000, step: 1, title: "The moment", "aria-label": "The moment",
    input: () => store.set({ time: (Number(slider.value) / 100000) * longest(), playing: false }),
  });
  const moment = make("output", { class: "moment" });
  const speeds: [string, string][] = [["3", "3 s"], ["6", "6 s"], ["12", "12 s"], ["30", "30 s"], ["120", "2 min"]];
  const speed = choice("A run takes", "How long one run takes on this screen", speeds, String(store.state.duration),
    (value) => store.set({ duration: Number(value) }));
  const part = make("span");
  const all = make("button", { click: () => store.set({ window: null }) }, "all of the time");
  const window = make("span", { class: "window" }, part, all);
  host.append(play, slider, moment, speed, window);

  function note(): void {
    const { state } = store;
    play.textContent = state.playing ? "❚❚" : "▶";
    slider.value = String(Math.round((state.time / (longest() || 1)) * 100000));
    moment.textContent = `${time(state.time)} of ${time(longest())}`;
    all.hidden = !state.window;
    part.textContent = state.window
      ? `Busy shares from ${time(state.window[0])} to ${time(state.window[1])} `
      : "Drag on the ruler for the busy shares of a part of the time";
  }
  return { note };
}

/** Start or stop; at the end, start again. */
export function toggle(store: Store, longest: number): void {
  const { playing, time: moment } = store.state;
  store.set({ playing: !playing, time: !playing && moment >= longest ? 0 : moment });
}

/** Let time go on by some milliseconds of the watch. */
export function advance(store: Store, longest: number, elapsed: number): void {
  const next = store.state.time + (elapsed / 1000 / store.state.duration) * longest;
  store.set(next >= longest ? { time: longest, playing: false } : { time: next });
}
