// How long plans take and why: of two plans first which is slower, then both in one table, then what takes the time.
import type { CriticalPath } from "../data/format";
import { busyShare, linkName, type Model } from "../model";
import type { Store } from "../state";
import { counted, rate, share, time } from "../units";
import { make } from "./elements";
import { explanation } from "./explanation";

/** Return the summary of what is shown, as elements of the panel. */
export function summariesOf(models: Model[], store: Store): HTMLElement[] {
  if (models.length === 1) {
    const heading = make("h2", {}, models[0].scene.label);
    return [make("section", { class: "summary", "data-pane": 0 }, heading, ...bodyOf(models, store))];
  }
  const heading = make("section", { class: "verdict" }, ...verdictOf(models));
  return [heading, make("section", { class: "summary" }, ...bodyOf(models, store))];
}

function bodyOf(models: Model[], store: Store): HTMLElement[] {
  const unread = models.filter((model) => !model.isRead);
  if (unread.length) {
    return unread.map(({ scene }) => make("p", {}, `${counted(scene.transfers, "transfer")} are being read…`));
  }
  const names = namesOf(models);
  const why = models.map((model, pane) => make("div", { "data-pane": pane },
    make("h3", {}, names.length > 1 ? `Why ${names[pane]} takes so long` : "Why it takes so long"),
    ...reasonsOf(model).map((reason) => make("p", {}, reason))));
  const isFirst = ({ scene }: Model, pane: number) =>
    models.findIndex((model) => model.scene.network === scene.network) === pane;
  const found = models.flatMap((model, pane) => (isFirst(model, pane) ? explanation(model, store, pane) : []));
  const facts = [tableOf(models, names), ...models.flatMap(partOf), ...models.flatMap(sharedOf)];
  return [...facts, ...found, ...why, buttonsOf(models, store)];
}

/** Return how plans are called where there is little room: by their algorithms, if these differ. */
function namesOf(models: Model[]): string[] {
  if (areChanged(models)) return models.map((model) => `“${model.scene.label}”`);
  const algorithms = models.map((model) => model.scene.algorithm);
  const isEnough = new Set(algorithms).size === models.length;
  return isEnough ? algorithms : models.map((model) => model.scene.label);
}

/** Tell whether one of the networks is another with changes that somebody asked about. */
function areChanged(models: Model[]): boolean {
  return models.some((model) => model.scene.changes.length);
}

/** Say which of two plans takes longer, and what differs: first the network, if it was changed. */
function verdictOf(models: Model[]): HTMLElement[] {
  const names = namesOf(models);
  const [heading, ...rest] = slowerOf(models, names);
  const changes = models.flatMap(({ scene }, pane) =>
    (scene.changes.length ? [make("p", { class: "changes" }, `${names[pane]}: ${scene.changes.join("; ")}.`)] : []));
  return [heading, ...changes, ...rest];
}

function slowerOf(models: Model[], names: string[]): HTMLElement[] {
  const [slow, fast] = models[0].scene.time_s < models[1].scene.time_s ? [1, 0] : [0, 1];
  const times = [models[slow].scene.time_s, models[fast].scene.time_s];
  if (!(times[0] > times[1] * 1.001)) {
    return [make("h2", {}, `${names[0]} and ${names[1]} take the same time: ${time(times[0])}`)];
  }
  const ratio = times[1] > 0 ? `${(times[0] / times[1]).toPrecision(3)} times as long as` : "longer than";
  return [
    make("h2", {}, `${names[slow]} takes ${ratio} ${names[fast]}`),
    ...differencesOf(models[slow], models[fast], names[slow], names[fast]).map((each) => make("p", {}, each)),
  ];
}

/** Say what makes one plan slower than another: its chain of transfers, and the links that it leaves idle. */
function differencesOf(slow: Model, fast: Model, slowName: string, fastName: string): string[] {
  const said: string[] = [];
  const [chain, other] = [slow.scene.path, fast.scene.path];
  if (chain && other && chain.transfers > other.transfers) {
    said.push(`The longest chain of ${slowName} has ${counted(chain.transfers, "transfer")}, ${WAITING}; ` +
      `that of ${fastName} has ${other.transfers}.`);
  }
  const more = chain && other ? longerPartsOf(chain, other, slow.scene.time_s * LEAST_SAID) : [];
  if (more.length) said.push(`Along its chain, ${slowName} needs ${more.join(", and ")} in ${fastName}.`);
  const idle = slow.isRead && fast.isRead ? slow.idle / slow.busy.length - fast.idle / fast.busy.length : 0;
  const used = `${slowName} uses ${usedOf(slow)}; ${fastName} uses ${usedOf(fast)}.`;
  if (idle > MUCH) return [used, ...said];
  return idle > LEAST_SAID ? [...said, used] : said;
}

const WAITING = "each of which waits for the one before, or for its link";

/** What differs by a smaller share is not said. */
const LEAST_SAID = 0.02;
/** So much more of the links idle is what is said first. */
const MUCH = 0.25;

/** Say of which of its times a chain has more than another, by at least some seconds. */
function longerPartsOf(chain: CriticalPath, other: CriticalPath, least_s: number): string[] {
  const parts = [["sending", "sending_s"], ["latency", "latency_s"], ["waiting", "waiting_s"]] as const;
  return parts.flatMap(([name, key]) =>
    (chain[key] - other[key] > least_s ? [`${time(chain[key])} of ${name}, against ${time(other[key])}`] : []));
}

function usedOf({ busy, idle }: Model): string {
  return idle ? `${busy.length - idle} of ${counted(busy.length, "link")}` : `all ${counted(busy.length, "link")}`;
}

/** What found the time, where its name alone would not say that. */
const FINDERS: Record<string, string> = { trace: "a given trace" };

/** A fact of a plan as people read it, and exactly; null if the plan has none. */
type Found = [string, number | string] | null;

/** What each row of the table is called, what that means, and what it says of a plan. */
const FACTS: [string, string, (model: Model) => Found][] = [
  ["Time", "How long the collective takes", ({ scene }) => [time(scene.time_s), scene.time_s]],
  ["Algorithm", "What made the plan", ({ scene }) =>
    (scene.label.includes(scene.algorithm) ? null : [scene.algorithm, scene.algorithm])],
  ["Simulator", "What found the time: a simulator, or a run that was measured", ({ scene }) =>
    [FINDERS[scene.simulator] ?? scene.simulator, scene.simulator]],
  ["Clocks", "How far the clocks of a measured run may differ", ({ scene }) =>
    (scene.clock_uncertainty_s ? [`± ${time(scene.clock_uncertainty_s)}`, scene.clock_uncertainty_s] : null)],
  ["Bound", "No plan on this network takes less time", ({ scene }) =>
    [scene.time_s > 0 ? time(scene.bound_s) : "none", scene.bound_s]],
  ["Of the bound", "The bound as a share of the time: at 100 % no plan is faster", ({ scene }) =>
    (scene.time_s > 0 ? [share(scene.bound_s / scene.time_s), scene.bound_s / scene.time_s] : null)],
  ["Mean use of links", "The share of the time for which a link's full rate is used, on average", ({ scene }) =>
    [share(scene.mean_utilization), scene.mean_utilization]],
  ["Most used link", "The same share, of the link that is used most", ({ scene }) =>
    [share(scene.max_utilization), scene.max_utilization]],
  ["Idle links", "Links that carry nothing", ({ idle, busy }) => [`${idle} of ${busy.length}`, idle]],
  ["Trees", "Each tree reduces and broadcasts a share of the vector", ({ scene }) =>
    [scene.trees.toLocaleString("en"), scene.trees]],
  ["Steps", "In how many steps trees send; none if they stream", ({ scene }) =>
    [scene.steps ? String(scene.steps) : "streamed", scene.steps]],
  ["Transfers", "Messages, or chunks of streams", ({ scene }) =>
    [scene.transfers ? scene.transfers.toLocaleString("en") : "not listed", scene.transfers]],
  ["Longest chain", `How many transfers come one after the other, ${WAITING}`, ({ scene }) =>
    (scene.path ? [scene.path.transfers.toLocaleString("en"), scene.path.transfers] : null)],
];

/** Return a table of facts with a column for each plan. */
function tableOf(models: Model[], names: string[]): HTMLElement {
  const rows = FACTS.map(([term, meaning, of]) => {
    const found = models.map(of);
    if (!found.some(Boolean)) return "";
    const cells = found.map((each, pane) =>
      make("td", { "data-term": term, "data-pane": pane, "data-value": each?.[1] }, each?.[0] ?? "–"));
    return make("tr", {}, make("th", { title: meaning, scope: "row" }, term), ...cells);
  });
  const head = make("tr", {}, make("td"), ...names.map((name) => make("th", { scope: "col" }, name)));
  return make("table", { class: "facts" }, ...(names.length > 1 ? [head] : []), ...rows);
}

/** Say of which trees a page has all, where it does not have all trees. */
function partOf({ scene }: Model): HTMLElement[] {
  if (scene.trees_here === scene.trees) return [];
  const rest = scene.served ? "name others above, and the server sends them" : "'treefold view --serve' has all";
  const here = `${counted(scene.trees_here, "tree")} of ${scene.trees}`;
  return [make("p", {}, `This file has ${here}; heat counts all; ${rest}.`)];
}

/** So many shared capacities are listed, those first of which most is used. */
const MOST_SHARED = 8;

/** Return a table of the capacities that links share, where there are any. */
function sharedOf({ network, scene }: Model, pane: number): HTMLElement[] {
  const { shared } = network;
  if (!shared.length) return [];
  const used = (at: number) => scene.shared_used[at] ?? 0;
  const order = shared.map((_, at) => at).sort((a, b) => used(b) - used(a) || a - b);
  const rows = order.slice(0, MOST_SHARED).map((at) => make("tr", {},
    make("th", { scope: "row" }, shared[at].name), make("td", {}, rate(shared[at].bandwidth_Bps)),
    make("td", { "data-value": used(at) }, scene.shared_used.length ? share(used(at)) : "–")));
  const rest = shared.length > MOST_SHARED ? [make("p", {}, `and ${shared.length - MOST_SHARED} more.`)] : [];
  const head = make("tr", {}, ...["Shared", "Rate", "Used"].map((name) => make("th", { scope: "col" }, name)));
  return [make("div", { "data-pane": pane }, make("table", { class: "facts shared" }, head, ...rows), ...rest)];
}

/** Say in sentences what takes the time. */
function reasonsOf(model: Model): string[] {
  const { scene } = model;
  const said = [...chainOf(model), ...busiestOf(model)];
  if (scene.bound_s > 0) {
    said.push(`No plan takes less than ${time(scene.bound_s)}, because of ${scene.limited_by}.`);
  }
  if (scene.limit_rate_Bps && scene.rate_limited_by !== scene.limited_by) {
    said.push(`Large vectors reach ${rate(scene.limit_rate_Bps)} at most, because of ${scene.rate_limited_by}.`);
  }
  return [...said, ...(ABOUT[scene.simulator] ?? [])];
}

const LATENCY = "latency includes the time until the receiver reads";
const BOUND = "the bound is that of the plan's network, which local workers do not cross";

/** What one should know of times that no simulator found. */
const ABOUT: Record<string, string[]> = {
  measured: [`This run was measured: ${BOUND}, and ${LATENCY}.`],
  trace: [`This trace was given. If a run was measured, ${BOUND}, and ${LATENCY}.`],
};

function chainOf({ scene }: Model): string[] {
  if (!scene.path?.transfers) return [];
  const { transfers, sending_s, latency_s, waiting_s } = scene.path;
  const parts = [`${time(sending_s)} of sending`, `${time(latency_s)} of latency`];
  if (waiting_s > scene.time_s * 1e-6) parts.push(`${time(waiting_s)} of waiting`);
  const chain = transfers === 1 ? "one transfer" : `${transfers} transfers, ${WAITING}`;
  return [`The longest chain has ${chain}: ${parts.join(", ")}.`];
}

function busiestOf(model: Model): string[] {
  const { idle, busy } = model;
  const busiest = model.busiest[0];
  if (busiest === undefined || !busy[busiest]) return [];
  const level = share(busyShare(model, busiest, null));
  const rest = idle ? `, while ${counted(idle, "link")} of ${busy.length} carry nothing` : "";
  return [`The busiest link, ${linkName(model, busiest)}, is busy ${level} of the time${rest}.`];
}

function buttonsOf(models: Model[], store: Store): HTMLElement {
  const { path, colour } = store.state;
  const isLimit = colour === "limit";
  const buttons = [make("button", { click: () => store.set({ colour: isLimit ? "busy" : "limit" }), title: "l" },
    isLimit ? "Show busy links" : "Show the limiting links")];
  if (models.some((model) => model.scene.path)) {
    buttons.unshift(make("button", { click: () => store.set({ path: !path }), title: "p" },
      path ? "Hide the critical path" : "Show the critical path"));
  }
  return make("div", { class: "buttons" }, ...buttons);
}
