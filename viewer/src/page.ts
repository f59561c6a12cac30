// The open page: it shows the network at once and the transfers as soon as they are read, and follows the state.
import type { Document } from "./data/format";
import { savePng, saveSvg } from "./files";
import { loaderOf, type Loader } from "./loading";
import type { Model } from "./model";
import { fromHash, hashOf, within, type State, type Store } from "./state";
import { comparisonChart, seriesChart } from "./views/chart";
import { fillControls, offeredColours } from "./views/controls";
import { make } from "./views/elements";
import { fail } from "./views/failure";
import { helpDialog } from "./views/help";
import { onKey } from "./views/keys";
import { showLegend } from "./views/legend";
import { paneIn, type Pane } from "./views/pane";
import { fillPanel } from "./views/panel";
import { rulerIn } from "./views/ruler";
import { timelineIn, type Timeline } from "./views/timeline";
import { fillTooltip } from "./views/tooltip";
import { advance, transportIn } from "./views/transport";

type Parts = ReturnType<typeof skeleton>;

interface Page {
  app: HTMLElement;
  parts: Parts;
  data: Document;
  store: Store;
  /** What is shown if the address says nothing. */
  first: State;
  loader: Loader;
  ruler: ReturnType<typeof rulerIn>;
  transport: ReturnType<typeof transportIn>;
  panes: Pane[];
  timelines: Timeline[];
  /** How many times scenes were asked for, so that an answer that comes late is known. */
  builds: number;
  /** Whether words are to be written anew before the next frame. */
  isWordy: boolean;
  /** What a server refused, until other trees are asked for. */
  notice: string;
}

export async function openPage(app: HTMLElement, data: Document, store: Store, first: State): Promise<void> {
  const parts = skeleton(data.title);
  app.replaceChildren(...parts.top);
  const longest = () => longestOf(data, store);
  const ruler = rulerIn(parts.ruler, store, longest);
  const transport = transportIn(parts.transport, store, longest);
  const page: Page = {
    app, parts, data, store, first, ruler, transport,
    loader: loaderOf(data), panes: [], timelines: [], builds: 0, isWordy: false, notice: "",
  };
  follow(page);
  if (document.readyState === "loading") await new Promise((resolve) => addEventListener("DOMContentLoaded", resolve));
  drawFrames(page);
  await build(page);
}

function skeleton(title: string) {
  const controls = make("div", { class: "controls" });
  const panes = make("div", { class: "panes" });
  const legend = make("div", { class: "legend" });
  const panel = make("aside", { class: "panel" });
  const transport = make("div", { class: "transport" });
  const ruler = make("div", { class: "ruler" });
  const timelines = make("div", { class: "timelines" });
  const tooltip = make("div", { class: "tooltip", role: "tooltip", hidden: true });
  const help = helpDialog();
  const top = [
    make("header", {}, make("h1", {}, title), controls),
    make("main", {}, make("div", { class: "stage" }, panes, legend), panel),
    make("footer", {}, transport, ruler, timelines),
    tooltip,
    help,
  ];
  return { controls, panes, legend, panel, transport, ruler, timelines, tooltip, help, top };
}

function longestOf(data: Document, store: Store): number {
  return Math.max(...store.state.shown.map((at) => data.scenes[at].time_s), 0);
}

/** Read what the state asks for, and show it; before it is read, the networks. */
async function build(page: Page): Promise<void> {
  const { store, loader } = page;
  const own = ++page.builds;
  const { shown } = store.state;
  if (!loader.hasRead(shown)) show(page, await loader.outlines(shown));
  const models = await loader.models(store.state);
  if (own !== page.builds) return; // something else was chosen meanwhile
  show(page, models);
  store.set(within(store.state, longestOf(page.data, store)));
  if (!offeredColours(models).some(([name]) => name === store.state.colour)) store.set({ colour: "busy" });
  page.app.dataset.ready = String(performance.now());
}

function show(page: Page, models: Model[]): void {
  const { parts } = page;
  for (const each of [...page.panes, ...page.timelines]) each.close();
  parts.panes.replaceChildren();
  parts.timelines.replaceChildren();
  page.panes = models.map((model, pane) => newPane(page, model, pane, models.length > 1));
  page.timelines = models.map((model, pane) => newTimeline(page, model, pane));
  writeWords(page);
  resize(page);
  page.app.dataset.first ??= String(performance.now());
}

function newPane(page: Page, model: Model, pane: number, hasCaption: boolean): Pane {
  const host = page.parts.panes.appendChild(make("figure", { class: "pane" }));
  const picture = host.appendChild(make("div", { class: "picture" }));
  if (hasCaption) host.append(make("figcaption", {}, model.scene.label));
  return paneIn(picture, model, page.store, pane);
}

function newTimeline(page: Page, model: Model, pane: number): Timeline {
  const host = page.parts.timelines.appendChild(make("div", { class: "timeline" }));
  return timelineIn(host, model, page.store, pane, longestOf(page.data, page.store));
}

/** Write the words around the pictures: controls, panel, legend and transport. */
function writeWords(page: Page): void {
  const { parts, store, data, panes } = page;
  page.isWordy = false;
  const models = panes.map((pane) => pane.model);
  document.documentElement.dataset.theme = store.state.theme;
  const exports = {
    png: () => savePng(page.app, page.panes, store.state),
    svg: () => saveSvg(page.panes, store.state),
  };
  fillControls(parts.controls, data, models, store, exports, () => parts.help.showModal());
  const width = Math.max(parts.panel.clientWidth - 40, 200);
  const series = models.map((model, pane) => seriesChart(model, store, pane, width)).find(Boolean);
  fillPanel(parts.panel, models, store, series ?? comparisonChart(data, store, width));
  if (page.notice) parts.panel.prepend(make("p", { class: "refused", role: "alert" }, page.notice));
  page.transport.note();
  showLegend(parts.legend, store, models);
}

/** Say what a server refused, and go on with what was shown before. */
function refused(page: Page, error: unknown): void {
  if (!page.panes.some((pane) => pane.model.isRead)) return fail(page.app, error);
  page.notice = error instanceof Error ? error.message : String(error);
  page.store.set({ trees: null });
}

/** Say what is under the pointer. */
function showTooltip({ panes, parts, store: { state } }: Page): void {
  fillTooltip(parts.tooltip, panes[state.pointed?.pane ?? 0]?.model, state);
}

function resize(page: Page): void {
  for (const each of [...page.panes, ...page.timelines, page.ruler]) each.resize();
}

/** Follow the state, the address, the window and the keys. */
function follow(page: Page): void {
  const { store, parts } = page;
  store.listen((_, changed) => noteChange(page, changed));
  keepAddress(page);
  addEventListener("resize", () => resize(page));
  const help = () => parts.help.showModal();
  const refit = () => page.panes.forEach((pane) => pane.refit());
  addEventListener("keydown", (event) => onKey(event, store, longestOf(page.data, store), help, refit));
}

/** What changes many times a second changes no words, but for the moment. */
const QUIET = new Set<keyof State>(["time", "playing", "cameras", "pointed"]);

function noteChange(page: Page, changed: Set<keyof State>): void {
  const { state } = page.store;
  for (const each of [...page.panes, ...page.timelines]) each.note(changed);
  const served = state.shown.some((at) => page.data.scenes[at].served);
  if (state.trees) page.notice = "";
  if (changed.has("pointed")) showTooltip(page);
  if (changed.has("shown") || (served && changed.has("trees"))) void build(page).catch((error) => refused(page, error));
  else if ([...changed].some((name) => !QUIET.has(name))) page.isWordy = true;
  page.transport.note();
}

/** Keep the state in the address of the page, or tell it to the notebook that shows the page; and follow both. */
function keepAddress(page: Page): void {
  const { store, first, data } = page;
  let saving = 0;
  store.listen(() => {
    clearTimeout(saving);
    saving = window.setTimeout(() => keep(hashOf(store.state, first)), 200);
  });
  const go = (hash: string) => {
    if (hash !== hashOf(store.state, first)) store.set({ ...first, ...fromHash(hash, first, data.scenes.length) });
  };
  // What is kept may have written over the address since, so the event tells what was asked for.
  addEventListener("hashchange", (event) => go(new URL(event.newURL).hash));
  addEventListener("message", (event) => {
    if (event.source === parent && typeof event.data?.treefold === "string") go(event.data.treefold);
  });
}

function keep(hash: string): void {
  if (parent === window) history.replaceState(null, "", `#${hash}`);
  else parent.postMessage({ treefold: hash }, "*");
}

/** Draw what has changed in every frame, and let time go on while the plan plays. */
function drawFrames(page: Page): void {
  const { store } = page;
  let before = performance.now();
  const draw = (now: number) => {
    if (store.state.playing) advance(store, longestOf(page.data, store), Math.min(now - before, 200));
    before = now;
    if (page.isWordy) writeWords(page);
    for (const each of [...page.panes, ...page.timelines]) each.draw();
    page.ruler.draw();
    requestAnimationFrame(draw);
  };
  requestAnimationFrame(draw);
}
