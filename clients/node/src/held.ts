// A lock that is held: renewed while it is, and told of its loss.
import { LockLostError, code, explained } from "./errors.js";
import { now, type Desk } from "./desk.js";
import { validLease, type Request } from "./request.js";

const numbers = (reply: unknown) => [reply].flat().map(Number);
const isGone = (error: unknown) => ["NOTHELD", "WRONGTYPE"].includes(code(error) ?? "");

/** To its desk, this is an entry. */
export class Held {
  /** One for each key. Locks that were acquired together have the same one, unless they were held before. */
  readonly fences: readonly number[];
  /** With `limit`, one for each key: which of its holders this one is, from 1. Empty if the server doesn't tell. */
  readonly slots: readonly number[];
  /** Aborted as soon as the lock is lost. Its reason is a LockLostError. */
  readonly signal: AbortSignal;
  /** @internal */
  parting = false;
  readonly #aborter = new AbortController();
  readonly #desk: Desk;
  readonly #request: Request;
  #lease: number | undefined;
  #whole: number; // the lease of a renewal, as the server gives it
  #until = 0; // when the lock may be gone
  #renewal = Infinity; // when it is due
  #renewing = false;
  #doubt = false;
  #trouble: unknown;
  #released: Promise<void> | undefined;
  #expired: (() => void) | undefined;

  /** @internal */
  constructor(desk: Desk, request: Request, reply: unknown[], began: number) {
    this.#desk = desk;
    this.#request = request;
    this.signal = this.#aborter.signal;
    this.fences = numbers(reply[1]);
    this.slots = reply[4] == null ? [] : numbers(reply[4]);
    this.#lease = request.options.lease;
    this.#whole = this.#lease ?? Number(reply[3]);
    this.#granted(Number(reply[3]), began);
    desk.add(this);
  }

  get keys() {
    return this.#request.keys;
  }

  get owner() {
    return this.#request.owner;
  }

  /** Rises with each grant: a resource that checks it refuses a holder that was too slow. Of several locks, the greatest one. */
  get fence() {
    return Math.max(...this.fences);
  }

  get slot() {
    return this.slots[0];
  }

  /** Sets the lease, counted from now. Renewals set the same from then on. Returns what the server gave. */
  async extend(lease?: number) {
    if (lease !== undefined) this.#lease = this.#whole = Number(validLease(lease));
    this.signal.throwIfAborted();
    const began = now();
    try {
      const left = Number(await this.#desk.send(this.#request, this.#request.extend(this.fences, this.#lease)));
      this.#granted(left, began);
      return left;
    } catch (error) {
      if (isGone(error)) this.#lose((error as Error).message, error);
      this.signal.throwIfAborted();
      throw explained(error, this.keys);
    }
  }

  /** Rejects with a LockLostError if the lock was lost before. */
  release() {
    return (this.#released ??= this.#release());
  }

  [Symbol.asyncDispose]() {
    return this.release();
  }

  async #release() {
    this.signal.throwIfAborted();
    this.tick(); // a process that stood still finds out here
    this.signal.throwIfAborted();
    this.parting = true;
    const partner = this.#desk.partner(this);
    if (partner) {
      this.#desk.remove(this);
      return partner.inherit(this.fences);
    }
    const { upsets } = this.#desk;
    try {
      const answer = this.#desk.deliver(this.#request, this.#request.release(this.fences), this.#until);
      const expiry = new Promise<void>((resolve) => (this.#expired = resolve)); // then the lock is free without an answer
      const reply = await Promise.race([answer, expiry]);
      if (Array.isArray(reply) && reply.includes(null)) this.#tell("one of the locks was gone when it was released");
    } catch (error) {
      if (!isGone(error)) throw explained(error, this.keys);
      // If an answer may have been lost, the first try is what worked.
      if (upsets === this.#desk.upsets) this.#tell((error as Error).message, error);
    } finally {
      this.#desk.remove(this);
    }
    this.signal.throwIfAborted();
  }

  /** @internal */
  get request() {
    return this.#request;
  }

  /** @internal */
  get due() {
    return Math.min(this.#until, this.#renewal);
  }

  /** @internal */
  tick() {
    const time = now(), { session } = this.#request.options;
    if (this.parting) {
      if (time >= this.#until) this.#expired?.();
      this.#renewal = Infinity;
    } else if (time >= this.#until && (this.#renewing || !session)) {
      this.#lose("its lease is over, and no renewal came through", this.#trouble);
    } else if (time >= this.due) {
      void this.#renew();
    }
  }

  /** @internal */
  hear(word: string, fence: number) {
    if (word === "lost" && this.fences.includes(fence)) this.#lose("the server says that it has ended");
    if (word === "gone") this.doubt();
  }

  /** @internal */
  doubt() {
    this.#doubt = true;
    if (!this.#renewing) this.#plan(0);
  }

  /** @internal */
  cut() {
    if (this.#request.options.session) this.#lose("the connection of its session was lost");
  }

  /** @internal */
  inherit() {} // it is the same grant

  /** @internal */
  async end(reason: Error) {
    const released = this.release();
    this.#tell(reason.message, reason);
    await released;
  }

  #granted(left: number, began: number) {
    const { renew = true, session } = this.#request.options;
    this.#until = left < 0 ? Infinity : began + left; // it never ends if somebody said PERSIST
    // A lease that comes out short has reached the maximum age: no renewal makes it longer.
    const renewable = (renew || session) && left >= this.#whole / 2;
    this.#renewal = renewable ? began + left / 3 : Infinity;
    this.#desk.plan(this.due);
  }

  #plan(pause: number) {
    this.#renewal = now() + pause;
    this.#desk.plan(this.due);
  }

  /**
   * In doubt it asks as for a new grant, so that the server knows this channel and this connection again. The fence tells
   * whether it is still the old one.
   */
  async #renew() {
    this.#renewal = Infinity;
    if (this.#renewing) return;
    const { renew = true, session } = this.#request.options;
    const began = now(), asks = this.#doubt;
    this.#renewing = true;
    this.#doubt = false;
    // The server renews it. What tells of its loss is an answer that does not come.
    if (session) this.#until = Math.max(this.#until, began + this.#whole);
    try {
      // To ask never makes a lease shorter, so what is not to be renewed asks for the shortest one.
      const words = asks
        ? this.#request.acquire(this.#desk.channel, undefined, renew || session ? this.#lease : 1)
        : this.#request.extend(this.fences, this.#lease);
      const reply = await this.#desk.send(this.#request, words);
      if (!asks) this.#granted(Number(reply), began);
      else if (Array.isArray(reply) && String(numbers(reply[1])) === String(this.fences)) this.#granted(Number(reply[3]), began);
      else {
        this.#lose("it was free, or someone else's, meanwhile");
        if (Array.isArray(reply)) this.#giveBack(numbers(reply[1])); // a new grant, which nobody asked for
      }
      if (this.#doubt) this.#plan(0);
    } catch (error) {
      if (isGone(error)) this.#lose((error as Error).message, error);
      this.#trouble = error;
      this.#doubt ||= asks || code(error) === "GRACE";
      this.#plan(Math.min(1000, this.#whole / 10));
    } finally {
      this.#renewing = false;
    }
  }

  #tell(why: string, cause?: unknown) {
    if (this.signal.aborted) return;
    this.#aborter.abort(new LockLostError(`${this.keys.join(", ")}: ${why}`, { cause }));
  }

  #lose(why: string, cause?: unknown) {
    if (this.signal.aborted) return;
    this.#tell(why, cause);
    if (this.parting) return;
    this.#desk.remove(this);
    this.#giveBack(this.fences); // perhaps only the network failed, or there are others of several locks
  }

  #giveBack(fences: readonly number[]) {
    if (this.#desk.partner(this)) return;
    this.#desk.deliver(this.#request, this.#request.release(fences), now() + this.#whole).catch(() => {});
  }
}
