// Reads networks and scenes once each, from the page or from its server.
import type { Columns } from "./data/columns";
import type { Document } from "./data/format";
import { modelOf, networkOf, outlineOf, type Model } from "./model";
import type { State } from "./state";

export interface Loader {
  /** Tell whether the transfers of all these scenes have been read. */
  hasRead(shown: number[]): boolean;
  /** Return the scenes as they are known before their transfers are read. */
  outlines(shown: number[]): Promise<Model[]>;
  /** Return the scenes that are shown, with the trees that are asked for. */
  models(state: State): Promise<Model[]>;
}

export function loaderOf(data: Document): Loader {
  const networks = new Map<number, Promise<Columns>>();
  const models = new Map<string, Promise<Model>>();
  const read = new Set<number>();
  const network = (at: number) => once(networks, data.scenes[at].network, (number) => networkOf(data.networks[number]));
  const model = (at: number, trees: State["trees"]) => {
    const wanted = treesToFetch(data, at, trees);
    const load = async () => modelOf(data, at, await network(at), wanted);
    return once(models, `${at} ${wanted ?? ""}`, load);
  };
  return {
    hasRead: (shown) => shown.every((at) => read.has(at)),
    outlines: (shown) => Promise.all(shown.map(async (at) => outlineOf(data, at, await network(at)))),
    async models({ shown, trees }) {
      const found = await Promise.all(shown.map((at) => model(at, trees)));
      for (const at of shown) read.add(at);
      return found;
    },
  };
}

/** Return the trees that only a server has; undefined if the page has all that are asked for. */
function treesToFetch(data: Document, at: number, trees: State["trees"]): number[] | undefined {
  const scene = data.scenes[at];
  const named = Array.isArray(trees) ? trees.filter((tree) => tree < scene.trees) : [];
  return scene.served && named.some((tree) => tree >= scene.trees_here) ? named : undefined;
}

/** Return what is kept under a key, or make it; what fails is forgotten, since it may succeed next time. */
function once<Key, Value>(
  kept: Map<Key, Promise<Value>>, key: Key, load: (key: Key) => Promise<Value>,
): Promise<Value> {
  const found = kept.get(key);
  if (found) return found;
  const reading = load(key);
  reading.catch(() => kept.delete(key));
  kept.set(key, reading);
  return reading;
}
