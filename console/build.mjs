// Also change: internal/trireme/insight/console/assets.py (the files of the page).
// Builds the page into the Python package: three files and an icon, which are committed. The same sources and the same
// versions (package-lock.json) give the same bytes. `node build.mjs FOLDER` writes elsewhere, for the drift check.
import { build } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, "../internal/trireme/insight/console/static");

await mkdir(target, { recursive: true });
await build({
  entryPoints: { console: join(here, "src/main.tsx") },
  outdir: target,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome115", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "inline",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) {
  await copyFile(join(here, "src", name), join(target, name));
}
