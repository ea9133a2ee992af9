// Loads a compiled model of uncork: `await load(module, constants)`, the bytes of model.wasm and
// model.constants. `model.run([tensor, ..])` gives tensors: {type, sizes, data}, data a typed array.

const ARRAYS = [
  null, Uint8Array, Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array,
  BigInt64Array, BigUint64Array, Uint16Array, Float32Array, Float64Array,
];
const TENSOR = 88, MAX_RANK = 8;

export async function load(module, constants) {
  // Nothing of the system is used; what the C library might ask for says that there is none.
  const nothing = new Proxy({}, { get: () => () => 52 });
  const { instance } = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: nothing });
  instance.exports._initialize?.();
  return new Model(instance.exports, constants);
}

class Model {
  constructor(exports, constants) {
    this.c = exports;
    const at = this.#aligned(constants.byteLength);
    new Uint8Array(exports.memory.buffer, at, constants.byteLength).set(new Uint8Array(
      constants.buffer ?? constants, constants.byteOffset ?? 0, constants.byteLength));
    exports.model_take_constants(at);
    this.inputs = this.#ports(exports.model_inputs(), exports.model_input);
    this.outputs = this.#ports(exports.model_outputs(), exports.model_output);
    const place = this.#taken(4);
    this.#check(exports.model_open(place, 0n));
    this.instance = this.#view().getUint32(place, true);
    exports.free(place);
  }

  // The results of a call. Throws an Error for one that the model does not take.
  run(tensors) {
    if (tensors.length !== this.inputs.length)
      throw new Error(`expected ${this.inputs.length} inputs, got ${tensors.length}`);
    const given = this.#taken(TENSOR * (tensors.length + 1)), kept = [given];
    const made = this.#taken(TENSOR * (this.outputs.length + 1));
    kept.push(made);
    try {
      tensors.forEach(({ data, sizes, type }, i) => {
        if (sizes.length > MAX_RANK) throw new Error(`input ${i} has more than ${MAX_RANK} sizes`);
        const bytes = data.byteLength, at = this.#taken(bytes);
        kept.push(at);
        const from = new Uint8Array(data.buffer, data.byteOffset, bytes);
        new Uint8Array(this.c.memory.buffer, at, bytes).set(from);
        const view = this.#view(), first = given + i * TENSOR;
        view.setUint32(first, at, true);
        view.setBigInt64(first + 8, BigInt(bytes), true);
        view.setInt32(first + 16, type ?? this.inputs[i].type, true);
        view.setInt32(first + 20, sizes.length, true);
        sizes.forEach((size, n) => view.setBigInt64(first + 24 + 8 * n, BigInt(size), true));
      });
      new Uint8Array(this.c.memory.buffer, made, TENSOR * this.outputs.length).fill(0);
      this.#check(this.c.model_run(this.instance, given, made));
      return this.outputs.map((_, i) => this.#result(made + i * TENSOR));
    } finally {
      kept.forEach((at) => this.c.free(at));
    }
  }

  // Has variables begin again.
  reset() { this.#check(this.c.model_reset(this.instance)); }

  close() { this.c.model_close(this.instance); this.instance = 0; }

  #view() { return new DataView(this.c.memory.buffer); }

  #taken(bytes) {
    const at = this.c.malloc(bytes || 1);
    if (!at) throw new Error(`there is no memory for ${bytes} bytes`);
    return at;
  }

  // At the beginning of a cache line, for as long as the model.
  #aligned(bytes) { return Math.ceil(this.#taken(bytes + 64) / 64) * 64; }

  #text(at) {
    const bytes = new Uint8Array(this.c.memory.buffer);
    return new TextDecoder().decode(bytes.slice(at, bytes.indexOf(0, at)));
  }

  #check(code) {
    if (!code) return;
    const why = this.instance ? this.#text(this.c.model_why(this.instance)) : "";
    throw new Error(this.#text(this.c.model_text(code)) + (why && `: ${why}`));
  }

  #ports(count, port) {
    return Array.from({ length: count }, (_, i) => {
      const at = port(i), view = this.#view();
      const [name, elementType, shape] = [0, 4, 8].map((n) => this.#text(view.getUint32(at + n, true)));
      return { name, elementType, shape, type: view.getInt32(at + 12, true) };
    });
  }

  #result(at) {
    const view = this.#view(), type = view.getInt32(at + 16, true);
    const sizes = Array.from({ length: view.getInt32(at + 20, true) },
      (_, n) => Number(view.getBigInt64(at + 24 + 8 * n, true)));
    const count = sizes.reduce((product, size) => product * size, 1), data = view.getUint32(at, true);
    return { type, sizes, data: new ARRAYS[type](this.c.memory.buffer, data, count).slice() };
  }
}
