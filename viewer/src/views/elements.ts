// Makes elements. Text is always text: no name of a node or file becomes markup.

type Props = Record<string, string | number | boolean | ((event: Event) => void) | undefined>;

export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  props: Props = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (typeof value === "boolean") element.toggleAttribute(name, value);
    else if (value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/** Make a choice of one of several; `options` are pairs of a value and its name. */
export function choice(
  label: string, title: string, options: [string, string][], value: string, chosen: (value: string) => void,
): HTMLLabelElement {
  const select = make("select", { title, change: (event) => chosen((event.target as HTMLSelectElement).value) });
  for (const [each, name] of options) select.append(make("option", { value: each, selected: each === value }, name));
  return make("label", {}, label, select);
}

/** A term and what it is, with the exact value for those who read the page by program. */
export function fact(term: string, text: string, value?: number | string): HTMLElement[] {
  return [make("dt", {}, term), make("dd", { "data-term": term, "data-value": value }, text)];
}
