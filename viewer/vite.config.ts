// Builds the viewer into one file, `page.html`, into which treefold writes its data, and the coasts for maps.
//
// The page may run no script but its own: its content security policy names the script and the style by their hashes.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { GeometryCollection, Topology } from "topojson-specification";
import { mesh } from "topojson-client";
import { defineConfig, type Plugin } from "vite";

const ASSETS = "../python/treefold/viewing/assets";

function hashOf(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

function page(script: string, style: string): string {
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    "img-src data: blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const parts: Record<string, string> = { policy, script, style };
  return readFileSync("src/page.html", "utf8").replace(/\{\{(policy|script|style)\}\}/g, (_, name) => parts[name]);
}

function coasts(): string {
  const world = JSON.parse(readFileSync("node_modules/world-atlas/land-110m.json", "utf8")) as Topology;
  const lines = mesh(world, world.objects.land as GeometryCollection).coordinates;
  const rounded = lines.map((line) => line.map((point) => point.map((degrees) => Math.round(degrees * 100) / 100)));
  return JSON.stringify(rounded);
}

function oneFile(): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      let script = "";
      let style = "";
      for (const [name, part] of Object.entries(bundle)) {
        if (part.type === "chunk") script += part.code;
        else if (name.endsWith(".css")) style += part.source;
        delete bundle[name];
      }
      const closed = script.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
      this.emitFile({ type: "asset", fileName: "page.html", source: page(closed, style.trim()) });
      this.emitFile({ type: "asset", fileName: "coasts.json", source: coasts() });
    },
  };
}

export default defineConfig({
  build: {
    outDir: ASSETS,
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    lib: { entry: "src/main.ts", formats: ["iife"], name: "treefold", fileName: () => "viewer.js" },
  },
  define: { "process.env.NODE_ENV": '"production"' },
  plugins: [oneFile()],
});
