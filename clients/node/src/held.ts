// A lock that is held: renewed while it is, and told of its loss.
import { LockLostError, NOT_HELD, code, explained, message } from "./errors.js";
import { now, type Desk, type Entry, type Flight } from "./desk.js";
import { tell } from "./observer.js";
import { leaseOf, type Request } from "./request.js";

const numbers = (reply: unknown) => (Array.isArray(reply) ? reply.map(Number) : [Number(reply)]);
const isGone = (error: unknown) => ["NOTHELD", "WRONGTYPE"].includes(code(error) ?? "");

const AGED = "it has reached its maximum age (maxHold, or the server's lock.max-hold)";

/** To its desk, it is an entry. */
export class Held {
  readonly keys: readonly string[];
  readonly owner: string;
  /** Rises with each grant: a resource that checks it refuses a holder that was too slow. Of several locks, the greatest one. */
  readonly fence: number;
  /** One for each key. Locks that were acquired together have the same one, unless they were held before. */
  readonly fences: readonly number[];
  /** With `limit`: which of the holders this one is, from 1, if the server tells. */
  readonly slot: number | undefined;
  /** @internal */
  parting = false;
  /** @internal */
  left: readonly number[] = []; // has the grant by itself
  /** @internal */
  place = false;
  private loss: LockLostError | undefined;
  private aborter: AbortController | undefined; // most holders never ask for a signal, and it is not cheap
  private lease: number | undefined;
  private claimed = false; // the server has given the whole lease
  private whole = 0; // the lease that a renewal is to give
  private given = 0; // by the last answer
  private aged = false; // it came out shorter than asked for, or than the one before: the maximum age ends it
  private until = 0; // when the lock may be gone
  private renewal = Infinity; // when it is due
  private renewing = false;
  private doubted = false;
  private trouble: unknown;
  private released: Promise<void> | undefined;
  private expire: (() => void) | undefined;
  private since = 0; // for the observer

  /** @internal `left` is that of a reply which has just come, or how long a grant lasts that is still to be claimed. */
  constructor(
    private readonly desk: Desk,
    /** @internal */ readonly request: Request,
    fences: unknown,
    slots: unknown,
    left: number,
    began: number,
    flight?: Flight, // none: the grant is still to be claimed
  ) {
    this.keys = request.keys;
    this.owner = request.owner;
    this.fences = numbers(fences);
    this.fence = Math.max(...this.fences);
    this.slot = slots == null ? undefined : numbers(slots)[0];
    this.lease = request.options.lease;
    if (flight) this.granted(left, began, flight);
    else {
      this.whole = left;
      this.until = began + left;
      this.renewal = now() + (this.until - now()) / 3; // the claim, if it is held that long
    }
    if (desk.observer) this.since = now();
    desk.add(this);
  }

  /** Why the lock was lost, if it was. */
  get lost() {
    if (now() >= this.until) this.tick(); // the process stood still, and no timer has run yet
    return this.loss;
  }

  /** Aborted as soon as the lock is lost. Its reason is a LockLostError. */
  get signal() {
    if (!this.aborter) {
      this.aborter = new AbortController();
      if (this.lost) this.aborter.abort(this.lost);
    }
    return this.aborter.signal;
  }

  private check() {
    if (this.lost) throw this.lost;
  }

  /** Sets the lease, counted from now. Renewals set the same from then on. Returns what the server gave. */
  async extend(lease?: number) {
    const began = now();
    if (lease !== undefined) this.lease = leaseOf(lease);
    this.check();
    if (lease !== undefined) this.whole = lease;
    const flight = this.extends(began);
    try {
      const left = Number(await this.desk.send(this.request, this.request.extend(this.fences, this.lease)));
      this.granted(left, began, flight);
      return left;
    } catch (error) {
      if (isGone(error)) this.gone(NOT_HELD, error);
      this.check();
      throw explained(error, this.keys);
    } finally {
      this.desk.lands(flight);
    }
  }

  /** Rejects with a LockLostError if the lock was lost before. */
  release() {
    return (this.released ??= this.part());
  }

  [Symbol.asyncDispose]() {
    return this.release();
  }

  private async part(reason?: Error) {
    this.check();
    this.parting = true;
    if (reason) this.tell(reason.message, reason);
    if (this.desk.leaveTo(this, this.fences)) {
      this.leaves();
      return this.check();
    }
    const { upsets } = this.desk;
    let lost: LockLostError | undefined;
    try {
      const reply = await new Promise<unknown>((resolve, reject) => {
        this.expire = () => resolve(undefined); // then the lock is free without an answer
        this.desk.deliver(this.request, this.request.release(this.fences), this.until).then(resolve, reject);
      });
      if (reply === undefined) lost = this.loss; // the locks were closed, and nobody knows whether it was given back
      if (Array.isArray(reply) && reply.includes(null)) lost = this.tell("one of the locks was gone when it was released");
    } catch (error) {
      if (!isGone(error)) {
        lost = this.loss;
        throw lost ?? explained(error, this.keys); // the client was closed, or it can't be sent
      }
      // If an answer may have been lost, the first try is what worked.
      if (upsets === this.desk.upsets) lost = this.tell(NOT_HELD, error);
    } finally {
      this.leaves(lost);
    }
    this.check();
  }

  /** The observer hears of its end. */
  private leaves(lost?: LockLostError) {
    const { observer } = this.desk;
    this.desk.remove(this);
    if (!observer) return;
    const time = now() - this.since;
    if (lost) tell(observer, "lost", this.request, time, lost);
    else tell(observer, "released", this.request, time);
  }

  /** @internal */
  get due() {
    return Math.min(this.until, this.renewal);
  }

  /** @internal */
  tick() {
    const time = now();
    if (this.parting) {
      this.renewal = Infinity;
      if (time < this.until) return;
      if (this.request.options.session) this.until = Infinity; // the server goes on renewing it
      else this.expire?.();
    } else if (time >= this.until) {
      if (this.aged) this.lose(AGED);
      else this.lose("its lease is over, and no renewal came through", this.trouble);
    } else if (time >= this.due) {
      void this.renew();
    }
  }

  /** @internal */
  hear(word: string, [fence]: readonly number[]) {
    if (word === "lost" && this.fences.includes(fence!)) {
      this.lose(this.aged && now() >= this.until ? AGED : "the server says that it has ended");
    }
    if (word === "gone") this.doubt();
  }

  /** @internal */
  doubt() {
    this.doubted = true;
    if (!this.renewing) this.plan(0);
  }

  /** @internal */
  cut() {
    if (this.request.options.session) this.lose("the connection of its session was lost");
  }

  /** @internal */
  async end(reason: Error) {
    await (this.released ??= this.part(reason));
  }

  private granted(left: number, began: number, flight: Flight) {
    const lease = left < 0 ? Infinity : left; // somebody said PERSIST: it never ends
    // The maximum age moves no end back, but for the time that the answer took: the server's own lease is another one now.
    const isOther = began + lease < this.until - (now() - began) - 1;
    const asked = this.lease ?? (isOther ? 0 : this.given);
    this.whole = this.lease ?? (left < 0 ? 30_000 : left);
    this.claimed = true;
    this.aged = this.request.kept && lease < asked;
    if (!this.aged) this.given = lease;
    const sure = Math.min(lease, flight.atMost - began);
    this.until = began + sure;
    // A lease that comes out short has reached the maximum age: no renewal makes it longer.
    const renewal = this.request.kept && lease >= asked / 2 ? began + sure / 3 : Infinity;
    this.renewal = this.doubted ? Math.min(this.renewal, renewal) : renewal;
    this.desk.plan(this.due);
    this.shorten(began, sure);
  }

  /** The server may set this lease even if its answer does not come. Before the claim, the length of its own is not known. */
  private extends(began: number) {
    const lease = this.lease ?? (this.claimed ? this.whole : Infinity);
    this.shorten(began, lease);
    return this.desk.departs(this, lease);
  }

  /** All that share the grant share its lease. What they have sent already may come, or have come, before what sets this lease. */
  private shorten(began: number, lease: number) {
    const isOther = (entry: Entry) => entry instanceof Held && String(entry.fences) !== String(this.fences);
    for (const flight of this.desk.flights(this)) {
      if (!isOther(flight.of)) flight.atMost = Math.min(flight.atMost, began + lease);
    }
    for (const entry of this.desk.sharers(this)) {
      if (!(entry instanceof Held) || isOther(entry) || began + lease >= entry.until) continue;
      entry.until = began + lease;
      if (entry.request.kept) entry.renewal = Math.min(entry.renewal, began + lease / 3);
      entry.desk.plan(entry.due);
    }
  }

  private plan(pause: number) {
    this.renewal = now() + pause;
    this.desk.plan(this.due);
  }

  /**
   * In doubt it asks as for a new grant, so that the server knows this channel and this connection again. The fence tells
   * whether it is still the old one.
   */
  private async renew() {
    this.renewal = Infinity;
    if (this.renewing) return;
    const began = now(), asks = this.doubted, { kept } = this.request;
    this.renewing = true;
    this.doubted = false;
    const flight = asks ? this.desk.departs(this) : this.extends(began);
    try {
      // To ask never makes a lease shorter, so what is not to be renewed asks for the shortest one, once it is claimed.
      const words = asks
        ? this.request.acquire(await this.desk.listens(this.request), undefined, kept || !this.claimed ? this.lease : 1)
        : this.request.extend(this.fences, this.lease);
      if (this.loss || this.parting) return;
      const reply = await this.desk.send(this.request, words);
      const fences = Array.isArray(reply) ? numbers(reply[1]) : [];
      if (!asks) this.granted(Number(reply), began, flight);
      else if (String(fences) === String(this.fences)) this.granted(Number((reply as unknown[])[3]), began, flight);
      else {
        this.gone("it was free, or someone else's, meanwhile");
        if (fences.length) this.giveBack(fences); // a new grant, which nobody asked for
      }
      if (this.doubted) this.plan(0);
    } catch (error) {
      if (isGone(error)) this.gone(NOT_HELD, error);
      this.trouble = error;
      this.doubted ||= asks || code(error) === "GRACE";
      this.plan(Math.min(1000, this.whole / 10));
    } finally {
      this.desk.lands(flight);
      this.renewing = false;
    }
  }

  /** The holder hears of its first loss. */
  private tell(why: string, cause?: unknown) {
    const said = why === NOT_HELD ? message(cause) : why; // the server's words have the key
    const loss = new LockLostError(`${this.keys.join(", ")}: ${said}`, why, { cause });
    if (!this.loss) {
      this.loss = loss;
      this.aborter?.abort(loss);
    }
    return loss;
  }

  /** The server knows nothing of the grant: it is lost for all that share it. */
  private gone(why: string, cause?: unknown) {
    for (const entry of this.desk.ofOwner(this.owner)) {
      if (entry instanceof Held && this.fences.every((fence) => entry.fences.includes(fence))) entry.lose(why, cause);
    }
  }

  private lose(why: string, cause?: unknown) {
    // The answer to a release tells how that went. In a cluster, it may have overtaken what was asked before it.
    if (this.loss || this.parting) return;
    this.leaves(this.tell(why, cause));
    this.giveBack(this.fences); // perhaps only the network failed, or there are others of several locks
  }

  private giveBack(fences: readonly number[]) {
    if (this.desk.leaveTo(this, fences)) return; // who waits, and gets no grant of its own, gives back this one
    this.desk.deliver(this.request, this.request.release(fences), now() + this.whole).catch(() => {});
  }
}
