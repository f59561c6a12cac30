// Colours that colour-blind people can tell apart, in light and in dark.
//
// Categories have those of Okabe and Ito (2008). Ordered values go through lightness, as in cividis (Nuñez et al.
// 2018).

export type Rgb = readonly [number, number, number];

export interface Theme {
  dark: boolean;
  paper: Rgb;
  ink: Rgb;
  /** For what is there but idle: links that carry nothing, coasts. */
  faint: Rgb;
  accelerator: Rgb;
  switch: Rgb;
  /** For what is selected, and the critical path. */
  accent: Rgb;
  /** For the links of the cut that bounds the network. */
  limit: Rgb;
}

const LIGHT: Theme = {
  dark: false,
  paper: [255, 255, 255],
  ink: [28, 32, 38],
  faint: [214, 218, 224],
  accelerator: [52, 62, 76],
  switch: [132, 142, 156],
  accent: [213, 94, 0],
  limit: [204, 51, 120],
};
const DARK: Theme = {
  dark: true,
  paper: [21, 24, 29],
  ink: [232, 235, 239],
  faint: [58, 64, 73],
  accelerator: [214, 220, 228],
  switch: [136, 146, 160],
  accent: [240, 150, 60],
  limit: [236, 120, 180],
};

export function themeOf(name: "light" | "dark"): Theme {
  return name === "dark" ? DARK : LIGHT;
}

const CATEGORIES: Rgb[] = [
  [0, 114, 178],
  [230, 159, 0],
  [0, 158, 115],
  [213, 94, 0],
  [86, 180, 233],
  [204, 121, 167],
  [170, 160, 30],
];
const CATEGORIES_DARK: Rgb[] = [
  [70, 160, 225],
  [240, 175, 40],
  [40, 190, 145],
  [240, 125, 50],
  [140, 205, 245],
  [225, 150, 190],
  [225, 215, 80],
];

/** Return the colour of a category, such as a tree; after seven they come again. */
export function category(number: number, theme: Theme): Rgb {
  const colours = theme.dark ? CATEGORIES_DARK : CATEGORIES;
  return colours[number % colours.length];
}

// From nearly the paper to the strongest, so that busy links stand out on either paper.
const HEAT: Rgb[] = [[226, 229, 234], [168, 190, 214], [92, 135, 186], [150, 92, 120], [196, 62, 38], [110, 16, 20]];
const HEAT_DARK: Rgb[] = [
  [48, 54, 62], [50, 84, 128], [74, 122, 176], [176, 120, 130], [240, 130, 60], [255, 228, 120],
];
const ORDER: Rgb[] = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [234, 205, 60]];

/** Return the colour of a share between 0 and 1, pale for little and strong for much. */
export function heat(value: number, theme: Theme): Rgb {
  return between(theme.dark ? HEAT_DARK : HEAT, value);
}

/** Return the colour of a place between first (0) and last (1), such as a step's. */
export function ordered(value: number, theme: Theme): Rgb {
  return between(ORDER, theme.dark ? 0.25 + 0.75 * value : 0.95 * value);
}

function between(stops: Rgb[], value: number): Rgb {
  const place = Math.min(Math.max(value, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  const part = place - low;
  const mix = (channel: 0 | 1 | 2) =>
    Math.round(stops[low][channel] * (1 - part) + stops[low + 1][channel] * part);
  return [mix(0), mix(1), mix(2)];
}

export function css(colour: Rgb, alpha = 1): string {
  return `rgba(${colour[0]},${colour[1]},${colour[2]},${alpha})`;
}
