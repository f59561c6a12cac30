// Reads blocks of columns: gzip, in base64, of a head in JSON and the bytes of its arrays.
//
// The bytes of an array are shuffled: first the lowest byte of all numbers, then the next, as that compresses better.
// Whole numbers may be differences to the one before.

export type Column = Uint8Array | Uint16Array | Int32Array | Uint32Array | Float32Array | Float64Array;
export type Columns = Record<string, Column>;

interface Head {
  name: string;
  type: "u1" | "u2" | "i4" | "u4" | "f4" | "f8";
  length: number;
  differences: boolean;
}

const ARRAYS = {
  u1: Uint8Array,
  u2: Uint16Array,
  i4: Int32Array,
  u4: Uint32Array,
  f4: Float32Array,
  f8: Float64Array,
} as const;

/** Read the block of an element of the page. */
export async function blockOf(id: string): Promise<Columns> {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no block ${id}; it is cut off`);
  const bytes = fromBase64(element.textContent ?? "");
  element.remove();
  return unpacked(await inflated(bytes));
}

/** Read a block that a server sends. */
export async function blockFrom(address: string): Promise<Columns> {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`the server answered ${answer.status}: ${await answer.text()}`);
  return unpacked(await inflated(new Uint8Array(await answer.arrayBuffer())));
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };
  if (native.fromBase64) return native.fromBase64(text);
  const raw = atob(text.trim());
  const bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at++) bytes[at] = raw.charCodeAt(at);
  return bytes;
}

async function inflated(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function unpacked(bytes: Uint8Array): Columns {
  const headLength = new DataView(bytes.buffer).getUint32(0, true);
  const heads = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + headLength))) as Head[];
  const columns: Columns = {};
  let at = 4 + headLength;
  for (const head of heads) {
    const array = new ARRAYS[head.type](head.length);
    const width = array.BYTES_PER_ELEMENT;
    unshuffle(bytes.subarray(at, at + head.length * width), new Uint8Array(array.buffer), width);
    if (head.differences) addUp(array);
    columns[head.name] = array;
    at += head.length * width;
  }
  return columns;
}

function unshuffle(from: Uint8Array, to: Uint8Array, width: number): void {
  const length = from.length / width;
  for (let byte = 0; byte < width; byte++) {
    for (let at = 0, place = byte; at < length; at++, place += width) to[place] = from[byte * length + at];
  }
}

function addUp(array: Column): void {
  for (let at = 1; at < array.length; at++) array[at] += array[at - 1];
}
