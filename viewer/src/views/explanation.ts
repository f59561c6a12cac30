// The tables of an explanation: what cables are worth, and what failures cost; a row selects what it is about.
import type { Explained } from "../data/format";
import { costInWords } from "../explained";
import type { Model } from "../model";
import type { ColourBy, Selected, Store } from "../state";
import { counted, share } from "../units";
import { make } from "./elements";

/** Rows; the text that `treefold explain --all` prints has all. */
const MOST_ROWS = 12;
const MOST_NAMES = 6;

/** Return the tables, or nothing if the scene has no explanation. */
export function explanation(model: Model, store: Store, pane: number): HTMLElement[] {
  if (!model.findings) return [];
  const { explained } = model.findings;
  return [
    make("h3", {}, "What more bandwidth is worth"),
    ...worths(explained, store, pane),
    shower("worth", "Colour links by worth", store),
    make("h3", {}, "What a failure costs"),
    ...rows(failureGroups(explained), store, pane),
    shower("failures", "Colour by cost of failure", store),
  ];
}

function worths(explained: Explained, store: Store, pane: number): HTMLElement[] {
  const useful = explained.links.filter((each) => each.gain > 0);
  if (useful.length) {
    const text = (each: Explained["links"][number]) => `+${share(each.gain)} for all with 10 % more`;
    return rows(grouped(useful, text), store, pane);
  }
  const { together } = explained;
  const rest = together.length > MOST_NAMES ? `and ${together.length - MOST_NAMES} more` : "";
  const names = [...together.slice(0, MOST_NAMES), rest].filter(Boolean).join(", ");
  const several = names && `; these must grow together: ${names}`;
  return [make("p", {}, `10 % more of one link gains nothing, whichever it is${several}.`)];
}

interface Group {
  names: string[];
  text: string;
  selected: Omit<Selected, "pane">;
}

/** Put items of the same text into a group, which selects its first. */
function grouped<Item extends { name: string; links: number[]; node?: number | null }>(
  items: Item[], text: (item: Item) => string,
): Group[] {
  const groups = new Map<string, Group>();
  for (const item of items) {
    const said = text(item);
    const node = item.node ?? null;
    const selected = node === null ? { kind: "link" as const, at: item.links[0] } : { kind: "node" as const, at: node };
    const group = groups.get(said) ?? { names: [], text: said, selected };
    group.names.push(item.name);
    groups.set(said, group);
  }
  return [...groups.values()];
}

function failureGroups(explained: Explained): Group[] {
  return grouped(explained.failures, (each) => {
    const cost = each.time ?? (each.rate ? 1 / each.rate : Infinity);
    return `${each.kind === "site" ? "a node" : "a link"} less: ${costInWords(cost)}`;
  });
}

function rows(groups: Group[], store: Store, pane: number): HTMLElement[] {
  const buttons = groups.slice(0, MOST_ROWS).map(({ names, text, selected }) => {
    const rest = names.length > 1 ? ` and ${names.length - 1} more` : "";
    const click = () => store.set({ selected: { ...selected, pane } });
    return make("button", { class: "row", title: names.join(", "), click }, `${names[0]}${rest}: ${text}`);
  });
  const rest = groups.length > MOST_ROWS ? `and ${counted(groups.length - MOST_ROWS, "row")} more` : "";
  return [make("div", { class: "list" }, ...buttons, rest)];
}

/** A button that colours the network by what stands above it. */
function shower(colour: ColourBy, text: string, store: Store): HTMLElement {
  const isOn = store.state.colour === colour;
  const click = () => store.set({ colour: isOn ? "busy" : colour });
  return make("div", { class: "buttons" }, make("button", { click }, isOn ? "Colour by busy share" : text));
}
