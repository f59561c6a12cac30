// The tables of an explanation: what cables are worth, and what failures cost; a name selects what it is of.
import type { Explained } from "../data/format";
import { failureInWords, gainInWords } from "../explained";
import type { Model } from "../model";
import type { ColourBy, Selected, Store } from "../state";
import { counted } from "../units";
import { make } from "./elements";

/** Rows, and names in a row; the text that `treefold explain --all` prints has all. */
const MOST_ROWS = 12;
const MOST_NAMES = 12;

/** Return the tables, or nothing if the scene has no explanation. */
export function explanation(model: Model, store: Store, pane: number): HTMLElement[] {
  if (!model.findings) return [];
  const { explained } = model.findings;
  return [
    make("h3", {}, "How far more bandwidth raises the best possible rate"),
    ...worths(explained, { store, pane, colour: "worth" }),
    shower("worth", "Colour links by worth", store),
    make("h3", {}, "What a failure costs"),
    ...rows(failureGroups(explained), { store, pane, colour: "failures" }),
    shower("failures", "Colour by cost of failure", store),
  ];
}

/** Where a table stands, and the colours that show what it says. */
interface Place {
  store: Store;
  pane: number;
  colour: ColourBy;
}

interface Member {
  name: string;
  thing: Omit<Selected, "pane">;
}

function worths(explained: Explained, place: Place): HTMLElement[] {
  const useful = explained.links.filter((each) => each.gain > 0);
  if (useful.length) {
    const any = (count: number) => (count > 1 ? "10 % more of any one of" : "10 % more of");
    return rows(grouped(useful, (each) => [any, gainInWords(each.gain)]), place);
  }
  const nothing = "10 % more of one link gains nothing, whichever it is";
  const members = explained.links.filter((each) => explained.together.includes(each.name)).map(memberOf);
  if (!members.length) return [make("p", {}, `${nothing}.`)];
  return [make("p", { class: "list" }, `${nothing}; these must grow together: `, ...names(members, place))];
}

interface Group {
  members: Member[];
  /** What stands before the names of so many, and after them. */
  before: (count: number) => string;
  after: string;
}

type Item = { name: string; links: number[]; node?: number | null };

function memberOf({ name, links, node }: Item): Member {
  return { name, thing: node == null ? { kind: "link", at: links[0] } : { kind: "node", at: node } };
}

/** Put items of the same words into a group. */
function grouped<Of extends Item>(items: Of[], words: (item: Of) => [Group["before"], string]): Group[] {
  const groups = new Map<string, Group>();
  for (const item of items) {
    const [before, after] = words(item);
    const key = `${before(1)} ${after}`;
    const group = groups.get(key) ?? { members: [], before, after };
    group.members.push(memberOf(item));
    groups.set(key, group);
  }
  return [...groups.values()];
}

function failureGroups(explained: Explained): Group[] {
  return grouped(explained.failures, (each) => {
    const what = each.kind === "site" ? "node" : "link";
    const before = (count: number) => (count > 1 ? `Without any one of the ${what}s` : `Without the ${what}`);
    return [before, failureInWords(each)];
  });
}

function rows(groups: Group[], place: Place): HTMLElement[] {
  const shown = groups.slice(0, MOST_ROWS).map(({ members, before, after }) =>
    make("p", { class: "list" }, `${before(members.length)} `, ...names(members, place), `: ${after}`));
  if (groups.length > MOST_ROWS) shown.push(make("p", {}, `and ${counted(groups.length - MOST_ROWS, "row")} more`));
  return shown;
}

/** Return names that select what they are of, and colour the network by what is said of them. */
function names(members: Member[], { store, pane, colour }: Place): (HTMLElement | string)[] {
  const shown = members.slice(0, MOST_NAMES).flatMap(({ name, thing }, at) => {
    const click = () => store.set({ selected: { ...thing, pane }, colour });
    return [...(at ? [", "] : []), make("button", { class: "chip", click }, name)];
  });
  return members.length > MOST_NAMES ? [...shown, ` and ${members.length - MOST_NAMES} more`] : shown;
}

/** A button that colours the network by what stands above it. */
function shower(colour: ColourBy, text: string, store: Store): HTMLElement {
  const isOn = store.state.colour === colour;
  const click = () => store.set({ colour: isOn ? "busy" : colour });
  return make("div", { class: "buttons" }, make("button", { click }, isOn ? "Colour by busy share" : text));
}
