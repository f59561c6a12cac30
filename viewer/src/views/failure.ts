// Says on the whole page why it cannot show its data.
import { make } from "./elements";

export function fail(app: HTMLElement, error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  app.dataset.failed = text;
  app.replaceChildren(make("p", { class: "failure" }, `This page cannot show its data: ${text}.`));
}
