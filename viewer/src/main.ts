// The page: it reads the document, shows the network at once and the transfers as soon as they are read.
import "./style.css";

import { css, themeOf } from "./colours";
import type { Columns } from "./data/columns";
import type { Document } from "./data/format";
import { LABEL_FONT } from "./picture/canvas";
import { svgOf } from "./picture/svg";
import { modelOf, networkOf, outlineOf, type Model } from "./model";
import { firstState, fromHash, hashOf, Store, within, type State } from "./state";
import { comparisonChart, seriesChart } from "./views/chart";
import { fillControls, offeredColours } from "./views/controls";
import { make } from "./views/elements";
import { helpDialog } from "./views/help";
import { onKey } from "./views/keys";
import { showLegend } from "./views/legend";
import { paneIn, type Hover, type Pane } from "./views/pane";
import { fillPanel } from "./views/panel";
import { rulerIn } from "./views/ruler";
import { timelineIn, type Timeline } from "./views/timeline";
import { fillTooltip } from "./views/tooltip";
import { advance, transportIn } from "./views/transport";

const app = document.getElementById("app")!;

async function start(): Promise<void> {
  const data = JSON.parse(document.getElementById("document")!.textContent!) as Document;
  const first = firstState(data.shown, data.scenes.some((scene) => scene.explained) ? "failures" : "busy");
  const store = new Store({ ...first, ...fromHash(location.hash, first, data.scenes.length) });
  const parts = skeleton(data.title);
  app.replaceChildren(...parts.top);
  await page(data, store, first, parts);
}

function skeleton(title: string) {
  const controls = make("div", { class: "controls" });
  const panes = make("div", { class: "panes" });
  const panel = make("aside", { class: "panel" });
  const transport = make("div", { class: "transport" });
  const ruler = make("div", { class: "ruler" });
  const timelines = make("div", { class: "timelines" });
  const tooltip = make("div", { class: "tooltip", role: "tooltip", hidden: true });
  const help = helpDialog();
  const top = [
    make("header", {}, make("h1", {}, title), controls),
    make("main", {}, panes, panel),
    make("footer", {}, transport, ruler, timelines),
    tooltip,
    help,
  ];
  return { controls, panes, panel, transport, ruler, timelines, tooltip, help, top };
}

async function page(data: Document, store: Store, first: State, parts: ReturnType<typeof skeleton>): Promise<void> {
  const networks = new Map<number, ReturnType<typeof networkOf>>();
  const loaded = new Map<string, Promise<Model>>();
  const isRead = new Set<number>();
  let panes: Pane[] = [];
  let timelines: Timeline[] = [];
  const longest = () => Math.max(...store.state.shown.map((at) => data.scenes[at].time_s), 0);
  const ruler = rulerIn(parts.ruler, store, longest);
  const transport = transportIn(parts.transport, store, longest);

  function load(at: number): Promise<Model> {
    const scene = data.scenes[at];
    const { trees } = store.state;
    const named = typeof trees === "object" ? (trees ?? []).filter((tree) => tree < scene.trees) : [];
    // The page has the first trees; a server has the others.
    const wanted = scene.served && named.some((tree) => tree >= scene.trees_here) ? named : undefined;
    const key = `${at} ${wanted ?? ""}`;
    if (!loaded.has(key)) {
      const reading = netOf(at).then((net) => modelOf(data, at, net, wanted));
      reading.catch(() => loaded.delete(key)); // it may succeed next time
      loaded.set(key, reading);
    }
    return loaded.get(key)!;
  }

  function netOf(at: number): Promise<Columns> {
    const { network } = data.scenes[at];
    if (!networks.has(network)) networks.set(network, networkOf(data.networks[network]));
    return networks.get(network)!;
  }

  let builds = 0;
  async function build(): Promise<void> {
    const own = ++builds;
    const { shown } = store.state;
    if (shown.some((at) => !isRead.has(at))) {
      show(await Promise.all(shown.map(async (at) => outlineOf(data, at, await netOf(at)))));
    }
    const models = await Promise.all(shown.map(load));
    for (const at of shown) isRead.add(at);
    if (own !== builds) return; // something else was chosen meanwhile
    show(models);
    store.set(within(store.state, longest()));
    if (!offeredColours(models).some(([name]) => name === store.state.colour)) store.set({ colour: "busy" });
    app.dataset.ready = String(performance.now());
  }

  function show(models: Model[]): void {
    for (const each of [...panes, ...timelines]) each.close();
    parts.panes.replaceChildren();
    parts.timelines.replaceChildren();
    panes = models.map((model, pane) => {
      const host = parts.panes.appendChild(make("figure", { class: "pane" }));
      const picture = host.appendChild(make("div", { class: "picture" }));
      if (models.length > 1) host.append(make("figcaption", {}, model.scene.label));
      return paneIn(picture, model, store, pane, (hover) => point(hover));
    });
    timelines = models.map((model, pane) =>
      timelineIn(parts.timelines.appendChild(make("div", { class: "timeline" })), model, store, pane, longest()));
    parts.panes.dataset.painter = panes.every((pane) => pane.isOnGpu) ? "gpu" : "canvas";
    words();
    resize();
    app.dataset.first ??= String(performance.now());
  }

  let isWordy = false;
  function words(): void {
    isWordy = false;
    const models = panes.map((pane) => pane.model);
    document.documentElement.dataset.theme = store.state.theme;
    fillControls(parts.controls, data, models, store, { png, svg }, () => parts.help.showModal());
    const width = Math.max(parts.panel.clientWidth - 40, 200);
    const series = models.map((model, pane) => seriesChart(model, store, pane, width)).find(Boolean);
    fillPanel(parts.panel, models, store, series ?? comparisonChart(data, store, width));
    if (notice) parts.panel.prepend(make("p", { class: "refused", role: "alert" }, notice));
    transport.note();
    showLegend(parts.panes, store.state, models);
  }

  /** Say what a server refused, until other trees are asked for, and go on with what was shown before. */
  let notice = "";
  function refused(error: unknown): void {
    if (!panes.some((pane) => pane.model.isRead)) return fail(error);
    notice = error instanceof Error ? error.message : String(error);
    store.set({ trees: null });
  }

  function point(hover: Hover): void {
    fillTooltip(parts.tooltip, hover ? panes[hover.pane]?.model : undefined, hover, store.state);
  }

  function resize(): void {
    for (const each of [...panes, ...timelines, ruler]) each.resize();
  }

  function png(): void {
    const canvas = picture(panes, store.state);
    canvas.toBlob((blob) => blob && save(blob, "treefold.png"));
  }

  function svg(): void {
    const theme = themeOf(store.state.theme);
    panes.forEach((pane, at) => {
      const text = svgOf(pane.drawing(), pane.view(), theme.ink, theme.paper);
      save(new Blob([text], { type: "image/svg+xml" }), at ? `treefold-${at + 1}.svg` : "treefold.svg");
    });
  }

  let saving = 0;
  store.listen((state, changed) => {
    for (const each of [...panes, ...timelines]) each.note(changed);
    const served = state.shown.some((at) => data.scenes[at].served);
    const justTime = [...changed].every((name) => name === "time" || name === "playing");
    if (state.trees) notice = "";
    if (changed.has("shown") || (served && changed.has("trees"))) void build().catch(refused);
    else if (!justTime) isWordy = true;
    transport.note();
    clearTimeout(saving);
    saving = window.setTimeout(() => keep(hashOf(store.state, first)), 200);
  });
  const follow = (hash: string) => hash !== hashOf(store.state, first) && store.set({ ...first, ...fromHash(hash, first, data.scenes.length) });
  addEventListener("message", (event) => {
    if (event.source === parent && typeof event.data?.treefold === "string") follow(event.data.treefold);
  });
  addEventListener("hashchange", () => follow(location.hash));
  addEventListener("resize", resize);
  addEventListener("keydown", (event) => onKey(event, store, longest(), () => parts.help.showModal(), () => panes.forEach((pane) => pane.refit())));

  let before = performance.now();
  function frame(now: number): void {
    if (store.state.playing) advance(store, longest(), Math.min(now - before, 200));
    before = now;
    if (isWordy) words();
    for (const each of [...panes, ...timelines]) each.draw();
    ruler.draw();
    requestAnimationFrame(frame);
  }
  if (document.readyState === "loading") await new Promise((resolve) => addEventListener("DOMContentLoaded", resolve));
  requestAnimationFrame(frame);
  await build();
}

/** Keep a state in the address of the page, or tell it to the notebook that shows the page. */
function keep(hash: string): void {
  if (parent === window) history.replaceState(null, "", `#${hash}`);
  else parent.postMessage({ treefold: hash }, "*");
}

/** Put the pictures of all panes beside each other, with their labels. */
function picture(panes: Pane[], state: State): HTMLCanvasElement {
  const theme = themeOf(state.theme);
  for (const pane of panes) pane.draw(true); // what the GPU has drawn is gone after a frame
  const canvases = [...document.querySelectorAll<HTMLCanvasElement>(".picture canvas:first-child")];
  const labels = [...document.querySelectorAll<HTMLCanvasElement>(".picture canvas.labels")];
  const all = make("canvas");
  all.width = canvases.reduce((sum, canvas) => sum + canvas.width, 0);
  all.height = Math.max(...canvases.map((canvas) => canvas.height)) + 28 * devicePixelRatio;
  const context = all.getContext("2d")!;
  context.fillStyle = css(theme.paper);
  context.fillRect(0, 0, all.width, all.height);
  let x = 0;
  canvases.forEach((canvas, at) => {
    context.drawImage(canvas, x, 28 * devicePixelRatio);
    context.drawImage(labels[at], x, 28 * devicePixelRatio);
    context.fillStyle = css(theme.ink);
    context.font = LABEL_FONT.replace("11px", `${13 * devicePixelRatio}px`);
    context.fillText(panes[at].model.scene.label, x + 12 * devicePixelRatio, 19 * devicePixelRatio);
    x += canvas.width;
  });
  return all;
}

function save(blob: Blob, name: string): void {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function fail(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  app.dataset.failed = text;
  app.replaceChildren(make("p", { class: "failure" }, `This page cannot show its data: ${text}.`));
}

start().catch(fail);
