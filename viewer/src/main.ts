// The start of the page: it reads the document and the address, and opens what they say.
import "./style.css";

import type { Document } from "./data/format";
import { openPage } from "./page";
import { firstState, fromHash, Store } from "./state";
import { fail } from "./views/failure";

async function start(app: HTMLElement): Promise<void> {
  const data = JSON.parse(document.getElementById("document")!.textContent!) as Document;
  const { scenes } = data;
  const isAnswer = scenes.some((scene) => scene.changes.length);
  const first = firstState(data.shown, !isAnswer && scenes.some((scene) => scene.explained) ? "failures" : "busy");
  const store = new Store({ ...first, ...fromHash(location.hash, first, data.scenes.length) });
  await openPage(app, data, store, first);
}

const app = document.getElementById("app")!;
start(app).catch((error) => fail(app, error));
