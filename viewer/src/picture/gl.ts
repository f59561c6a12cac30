// Draws on the GPU: each kind of layer is one call, with an instance for each segment or mark.
import * as twgl from "twgl.js";

import type { Drawing, Marks, Segments, View } from "./drawing";

const PLACED = `#version 300 es
  precision highp float;
  in vec4 ends; in float shift; in vec4 colour; in vec2 corner;
  uniform vec3 view; uniform vec2 screen; uniform float ratio;
  out vec4 tint; out vec2 at;
  vec2 along; vec2 side; vec2 from; vec2 to;
  void place() {
    from = ends.xy * view.z + view.xy; to = ends.zw * view.z + view.xy;
    vec2 way = to - from; float far = length(way);
    along = far > 0.0 ? way / far : vec2(1.0, 0.0);
    side = vec2(-along.y, along.x);
    from += side * shift; to += side * shift;
    tint = vec4(colour.rgb * colour.a, colour.a); at = corner;
  }
  vec4 seen(vec2 pixel) { return vec4(pixel / screen * vec2(2.0, -2.0) + vec2(-1.0, 1.0), 0.0, 1.0); }
`;
const SEGMENT = `${PLACED}
  in float width;
  out float halfWidth;
  void main() {
    place();
    float wide = max(width, 1.0 / ratio); tint *= min(1.0, width * ratio);
    halfWidth = wide / 2.0 + 0.5 / ratio;
    at = vec2(corner.x, corner.y * halfWidth);
    gl_Position = seen(mix(from, to, corner.x * 0.5 + 0.5) + side * corner.y * halfWidth);
  }`;
const SEGMENT_COLOUR = `#version 300 es
  precision highp float;
  in vec4 tint; in vec2 at; in float halfWidth; uniform float ratio; out vec4 colour;
  void main() { colour = tint * clamp((halfWidth - abs(at.y)) * ratio, 0.0, 1.0); }`;
const MARK = `${PLACED}
  in float size; in float shape;
  flat out float kind; flat out float across;
  void main() {
    place(); kind = shape; across = size;
    vec2 off = corner * (size / 2.0 + 1.0);
    at = off;
    gl_Position = seen(from + (shape == 2.0 ? along * off.x + side * off.y : off));
  }`;
const MARK_COLOUR = `#version 300 es
  precision highp float;
  in vec4 tint; in vec2 at; flat in float kind; flat in float across; uniform float ratio; out vec4 colour;
  void main() {
    float radius = across / 2.0; float inside = radius - length(at);
    if (kind == 1.0) inside = radius * 0.88 - max(abs(at.x), abs(at.y));
    if (kind == 2.0) inside = min(at.x + radius * 0.8, (radius - at.x) * 0.45 - abs(at.y));
    if (kind == 3.0) inside = 1.25 - abs(radius - 1.25 - length(at));
    if (kind == 4.0) inside = (radius - abs(at.x) - abs(at.y)) * 0.7071;
    colour = tint * clamp(inside * ratio + 0.5, 0.0, 1.0);
  }`;

export interface Painter {
  /** Whether it draws no more, since the GPU was taken away from it. */
  isLost(): boolean;
  /** Give back what the GPU holds for it. */
  close(): void;
  draw(drawing: Drawing, view: View, ratio: number, paper: readonly [number, number, number]): void;
}

interface Held {
  info: twgl.BufferInfo;
  vao: WebGLVertexArrayObject | null;
  room: number;
  version: number;
}

const CORNERS = { numComponents: 2, data: new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]) };

/** Return what draws on the GPU into a canvas; null if the browser has none to draw with. */
export function glPainter(canvas: HTMLCanvasElement): Painter | null {
  if (!hasGpu()) return null;
  const gl = canvas.getContext("webgl2", { antialias: false });
  if (!gl) return null;
  const programs = {
    segments: twgl.createProgramInfo(gl, [SEGMENT, SEGMENT_COLOUR]),
    marks: twgl.createProgramInfo(gl, [MARK, MARK_COLOUR]),
  };
  if (!programs.segments || !programs.marks) return null;
  const buffers = new WeakMap<object, Held>();

  function drawLayer(kind: "segments" | "marks", layer: Segments | Marks, uniforms: object): void {
    if (!layer.count) return;
    const program = programs[kind];
    let made = buffers.get(layer);
    if (!made || made.room !== layer.shifts.length) {
      const info = twgl.createBufferInfoFromArrays(gl!, { corner: CORNERS, ...attributesOf(layer, true) });
      made = { info, vao: twgl.createVAOFromBufferInfo(gl!, program, info), room: layer.shifts.length, version: -1 };
      buffers.set(layer, made);
    }
    if (made.version !== layer.version) {
      for (const [name, { data }] of Object.entries(attributesOf(layer, false))) {
        gl!.bindBuffer(gl!.ARRAY_BUFFER, made.info.attribs![name].buffer);
        gl!.bufferSubData(gl!.ARRAY_BUFFER, 0, data);
      }
      made.version = layer.version;
    }
    gl!.useProgram(program.program);
    gl!.bindVertexArray(made.vao);
    twgl.setUniforms(program, uniforms);
    gl!.drawArraysInstanced(gl!.TRIANGLE_STRIP, 0, 4, layer.count);
  }

  return {
    isLost: () => gl.isContextLost(),
    draw(drawing, view, ratio, paper) {
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clearColor(paper[0] / 255, paper[1] / 255, paper[2] / 255, 1);
      gl.clear(gl.COLOR_BUFFER_BIT);
      gl.enable(gl.BLEND);
      gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
      const uniforms = { view: [view.x, view.y, view.scale], screen: [view.width, view.height], ratio };
      for (const layer of drawing.layers) {
        if ("segments" in layer) drawLayer("segments", layer.segments, uniforms);
        else drawLayer("marks", layer.marks, uniforms);
      }
      gl.bindVertexArray(null);
    },
    close: () => gl.getExtension("WEBGL_lose_context")?.loseContext(),
  };
}

let found: boolean | null = null;

/** Tell whether WebGL is drawn by a GPU. Where it is computed in software, a plain canvas is several times faster. */
function hasGpu(): boolean {
  if (found !== null) return found;
  const gl = document.createElement("canvas").getContext("webgl2");
  const named = gl?.getExtension("WEBGL_debug_renderer_info");
  const renderer = gl ? String(gl.getParameter(named ? named.UNMASKED_RENDERER_WEBGL : gl.RENDERER)) : "software";
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  found = !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(renderer);
  return found;
}

/** Return the columns of a layer as attributes: all their room at first, then what is used. */
function attributesOf(layer: Segments | Marks, all: boolean) {
  const count = all ? layer.shifts.length : layer.count;
  const each = (data: Float32Array | Uint8Array, numComponents: number, normalize = false) => ({
    numComponents,
    data: data.subarray(0, numComponents * count),
    divisor: 1,
    normalize,
    drawType: WebGL2RenderingContext.DYNAMIC_DRAW,
  });
  const common = { ends: each(layer.places, 4), shift: each(layer.shifts, 1), colour: each(layer.colours, 4, true) };
  if ("widths" in layer) return { ...common, width: each(layer.widths, 1) };
  return { ...common, size: each(layer.sizes, 1), shape: each(layer.shapes, 1) };
}
