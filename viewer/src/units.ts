// Numbers as people read them: times, sizes and rates with three digits and a unit.

function scaled(value: number, units: [number, string][], places = 3): string {
  const [factor, unit] = units.find(([least]) => Math.abs(value) >= least * 0.9995) ?? units[units.length - 1];
  const digits = Number((value / factor).toPrecision(Math.min(places, 15)));
  return `${digits}\u00a0${unit}`;
}

export function time(seconds: number, digits = 3): string {
  if (seconds === 0) return "0\u00a0s";
  return scaled(seconds, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]], digits);
}

export function size(bytes: number): string {
  if (bytes < 1024) return `${Number(bytes.toPrecision(3))}\u00a0B`;
  return scaled(bytes, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]);
}

export function rate(bytesPerSecond: number): string {
  return scaled(bytesPerSecond, [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]]);
}

export function share(fraction: number): string {
  const percent = fraction * 100;
  const isWhole = percent >= 99.95 || percent === 0;
  return `${isWhole ? Math.round(percent) : percent.toPrecision(percent < 10 ? 2 : 3)}\u00a0%`;
}

/** Return a count with its noun, such as `1 tree` or `12 trees`. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? noun : plural}`;
}

/** Return a quantity with its unit, such as `8 flits` or `64 KiB`. */
export function amount(value: number, unit: string): string {
  return unit === "bytes" ? size(value) : `${Number(value.toPrecision(3))}\u00a0${unit}`;
}
