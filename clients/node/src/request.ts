// What the user asks for, as words of the server's commands. Bad input is refused here, before anything is sent.

/** Times are whole milliseconds. */
export interface Options {
  /** How long to wait: for ever by default; 0 asks once; n waits at most n ms. */
  wait?: number | undefined;
  /** Aborting it ends the wait, and gives up the place in the queue. */
  signal?: AbortSignal | undefined;
  /** How long the lock stays held if its holder vanishes. By default the server's own default, 30 s. */
  lease?: number | undefined;
  /** False: the lock ends with its lease, unless `extend` is called. By default it is renewed until it is released. */
  renew?: boolean | undefined;
  /** The lock is never held for longer than this, however often it is renewed. */
  maxHold?: number | undefined;
  /** The server renews the lease, and the lock is free as soon as the client's connection closes. */
  session?: boolean | undefined;
  /** A reader: any number of readers hold the lock together. */
  shared?: boolean | undefined;
  /** At most so many hold the lock together. `slot` of the lock tells which of them this one is. */
  limit?: number | undefined;
  /** With `limit`: asks for this slot, a number from 1 to `limit`, and for no other. */
  slot?: number | undefined;
  /** The owner name, with which the same owner can re-enter the lock or use it in another process. By default, a fresh UUID. */
  owner?: string | undefined;
  /** Describes the holder to operators. */
  label?: string | undefined;
  /** Fails with a DeadlockError at once if the wait would never end. For this, all locks of a task need the same owner. */
  detect?: boolean | undefined;
  /** [n, ms]: the lock counts only once n replicas have it, within so many ms. */
  sync?: readonly [replicas: number, milliseconds: number] | undefined;
}

const kinds: Record<keyof Options, string> = {
  wait: "number", signal: "object", lease: "number", renew: "boolean", maxHold: "number", session: "boolean", shared: "boolean",
  limit: "number", slot: "number", owner: "string", label: "string", detect: "boolean", sync: "object",
};

function whole(name: string, value: unknown, least: number, most = Number.MAX_SAFE_INTEGER) {
  if (typeof value !== "number") throw new TypeError(`${name} must be a number: ${value}`);
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    throw new RangeError(`${name} must be a whole number from ${least} to ${most}: ${value}`);
  }
  return value;
}

export const leaseOf = (lease: unknown) => whole("lease", lease, 1);

/** Restricts a command to this grant, so that a late retry can't touch a newer one. Re-entered locks have different fences. */
const fenceOf = (fences: readonly number[]) =>
  fences.length && fences.every((fence) => fence === fences[0]) ? ["FENCE", String(fences[0])] : [];

export class Request {
  readonly keys: readonly string[];
  /** The keys as the server knows them: with the client's prefix. */
  readonly names: readonly string[];
  readonly owner: string;
  /** Whether the lease is to be renewed. */
  readonly kept: boolean;
  /**
   * Whether work may begin at the start message. Such a message tells of one new grant, and neither ties it to a connection nor means that
   * replicas have confirmed it. All other grants have to be claimed.
   */
  readonly starts: boolean;
  readonly options: Readonly<Options>;
  /** The last channel that the server was told. */
  channel: string | undefined;
  readonly #mode: string[] = [];
  readonly #sync: string[] = [];
  #id: string | undefined;

  constructor(keys: string | readonly string[], options: Options, prefix = "") {
    this.keys = typeof keys === "string" ? [keys] : [...keys];
    if (!this.keys.length) throw new TypeError("a lock needs a key");
    if (this.keys.some((key) => typeof key !== "string")) throw new TypeError("a key must be a string");
    this.names = prefix ? this.keys.map((key) => prefix + key) : this.keys;
    if (this.keys.length > 1 && new Set(this.keys).size < this.keys.length) throw new TypeError("a key is named twice");
    for (const name in options) {
      const kind = kinds[name as keyof Options], value = options[name as keyof Options];
      if (!kind) throw new TypeError(`there is no option ${name}`);
      if (value !== undefined && (value === null || typeof value !== kind)) throw new TypeError(`${name} must be a ${kind}: ${value}`);
    }
    const { wait, lease, maxHold, session, shared, limit, slot, owner, label, detect, sync } = options;
    if (shared && limit !== undefined) throw new TypeError("shared and limit exclude each other");
    if (owner !== undefined && !(owner && new TextEncoder().encode(owner).length <= 128)) {
      throw new RangeError("owner must be 1 to 128 bytes long");
    }
    if (wait !== undefined) whole("wait", wait, 0);
    if (lease !== undefined) leaseOf(lease);
    if (sync) this.#sync = ["SYNC", ...[0, 1].map((at) => `${whole(`sync[${at}]`, sync[at], 1, 2 ** 32 - 1)}`)];
    if (shared) this.#mode.push("SHARED");
    if (limit !== undefined) this.#mode.push("LIMIT", `${whole("limit", limit, 1)}`);
    if (slot !== undefined) this.#mode.push("SLOT", `${whole("slot", slot, 1, limit ?? 0)}`);
    if (session) this.#mode.push("SESSION");
    if (maxHold !== undefined) this.#mode.push("MAXHOLD", `${whole("maxHold", maxHold, 1)}`);
    if (detect) this.#mode.push("DETECT");
    if (label !== undefined) this.#mode.push("LABEL", label);
    this.owner = owner ?? crypto.randomUUID();
    this.kept = options.renew !== false || session === true;
    this.starts = owner === undefined && this.keys.length === 1 && !session && !sync;
    this.options = options;
  }

  get mode() {
    return this.options.shared ? "shared" : this.options.limit === undefined ? "exclusive" : "limit";
  }

  /** Identifies the owner with its locks: requests that can share a grant have the same id. */
  get id() {
    return (this.#id ??= JSON.stringify([this.owner, [...this.keys].sort()]));
  }

  /** Without `block`, asks once; with 0, waits for ever. A start message, at which work may begin, repeats the number `start`. */
  acquire(channel: string, block: number | undefined, lease: number | undefined, start?: number) {
    const words = this.#command("ACQUIRE");
    words.push("OWNER", this.owner);
    if (lease !== undefined) words.push("PX", String(lease));
    if (block !== undefined) words.push("BLOCK", String(block));
    words.push("NOTIFY", channel);
    if (start !== undefined) words.push("START", String(start));
    words.push("ONCE", ...this.#mode, ...this.#sync);
    return words;
  }

  extend(fences: readonly number[], lease: number | undefined) {
    const words = this.#command("EXTEND");
    words.push(this.owner);
    if (lease !== undefined) words.push("PX", String(lease));
    words.push(...fenceOf(fences), ...this.#sync);
    return words;
  }

  release(fences: readonly number[]) {
    const words = this.#command("RELEASE");
    words.push(this.owner, ...fenceOf(fences));
    return words;
  }

  leave() {
    return ["LOCK.LEAVE", this.names[0]!, this.owner];
  }

  #command(name: string) {
    if (this.names.length === 1) return [`LOCK.${name}`, this.names[0]!];
    return [`LOCK.M${name}`, String(this.names.length), ...this.names];
  }
}
