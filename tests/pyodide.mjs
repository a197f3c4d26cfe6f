// Runs tests/in_pyodide.py in Pyodide, without a browser: node pyodide.mjs FOLDER CHECKOUT, where FOLDER has what
// CONTRIBUTING says. It prints what its learner sees, as JSON, in the last line.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, checkout] = process.argv.slice(2);
const home = join(folder, "node_modules", "pyodide");
const { loadPyodide } = await import(pathToFileURL(join(home, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: home });
const packages = python.runPython("import sysconfig; sysconfig.get_path('purelib')");
for (const wheel of readdirSync(folder).filter((name) => name.endsWith(".whl"))) {
  python.unpackArchive(new Uint8Array(readFileSync(join(folder, wheel))), "whl", { extractDir: packages });
}
python.FS.mkdir("/checkout");
python.mountNodeFS("/checkout", checkout);
python.runPython(`
import sys

sys.dont_write_bytecode = True
sys.path[:0] = ["/checkout", "/checkout/tests"]
import in_pyodide

in_pyodide.main()
`);
