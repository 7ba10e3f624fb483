// A lock that is held: the package renews it, and tells the holder if it is lost.
import { LockLostError, NOT_HELD, code, explained, message } from "./errors.js";
import { now, type Desk, type Entry, type Flight } from "./desk.js";
import { tell } from "./observer.js";
import { leaseOf, type Request } from "./request.js";

const numbers = (reply: unknown) => (Array.isArray(reply) ? reply.map(Number) : [Number(reply)]);
const isGone = (error: unknown) => ["NOTHELD", "WRONGTYPE"].includes(code(error) ?? "");

const AGED = "it has reached its maximum age (maxHold, or the server's lock.max-hold)";

/** A held lock. For its `Desk`, it is an `Entry`. */
export class Held {
  readonly keys: readonly string[];
  readonly owner: string;
  /** Greater for each later grant: a resource that checks it can refuse a late holder. With several locks, their greatest fence. */
  readonly fence: number;
  /** One fence for each key. Locks that were acquired together have the same fence, unless the owner held one of them before. */
  readonly fences: readonly number[];
  /** With `limit`: which of the holders this one is, from 1; undefined if the server does not tell. */
  readonly slot: number | undefined;
  /** @internal */
  parting = false;
  /** @internal */
  left: readonly number[] = []; // always empty: a held lock has its own grant
  /** @internal */
  place = false;
  private loss: LockLostError | undefined;
  private aborter: AbortController | undefined; // made on demand: most holders never need a signal, and it is not cheap
  private lease: number | undefined;
  private claimed = false; // the server has confirmed the whole lease
  private whole = 0; // the lease that a renewal is expected to give
  private given = 0; // the lease in the last answer
  private aged = false; // the last answer gave less than was asked for or than the one before: the maximum age cuts it
  private until = 0; // when the lock may have ended
  private renewal = Infinity; // when the next renewal is due
  private renewing = false;
  private doubted = false;
  private trouble: unknown;
  private released: Promise<void> | undefined;
  private expire: (() => void) | undefined;
  private since = 0; // when the lock was acquired, for the observer

  /** @internal `left` is the lease in the reply that has just come, or how long a grant lasts that still has to be claimed. */
  constructor(
    private readonly desk: Desk,
    /** @internal */ readonly request: Request,
    fences: unknown,
    slots: unknown,
    left: number,
    began: number,
    flight?: Flight, // undefined: the grant still has to be claimed
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
      this.renewal = now() + (this.until - now()) / 3; // time for the claim, if the lock is still held then
    }
    if (desk.observer) this.since = now();
    desk.add(this);
  }

  /** Why the lock was lost; undefined if it was not. */
  get lost() {
    if (now() >= this.until) this.tick(); // the process was suspended, and no timer has run yet
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

  /** Sets the lease in ms, counted from now, also for later renewals. Returns the lease that the server gave. */
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
        this.expire = () => resolve(undefined); // when the lease is over, the lock is free without an answer
        this.desk.deliver(this.request, this.request.release(this.fences), this.until).then(resolve, reject);
      });
      if (reply === undefined) lost = this.loss; // the locks were closed, and nobody knows whether it was released
      if (Array.isArray(reply) && reply.includes(null)) lost = this.tell("one of the locks was gone when it was released");
    } catch (error) {
      if (!isGone(error)) {
        lost = this.loss;
        throw lost ?? explained(error, this.keys); // the client was closed, or the command can't be sent
      }
      // If an answer may have been lost, NOTHELD can mean that an earlier try has worked.
      if (upsets === this.desk.upsets) lost = this.tell(NOT_HELD, error);
    } finally {
      this.leaves(lost);
    }
    this.check();
  }

  /** Tells the observer that the lock has ended. */
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
    const lease = left < 0 ? Infinity : left; // somebody used PERSIST: no end
    // The maximum age only cuts a new lease. If the end moved back by more than the answer took, the server's default was changed instead.
    const isOther = began + lease < this.until - (now() - began) - 1;
    const asked = this.lease ?? (isOther ? 0 : this.given);
    this.whole = this.lease ?? (left < 0 ? 30_000 : left);
    this.claimed = true;
    this.aged = this.request.kept && lease < asked;
    if (!this.aged) this.given = lease;
    const sure = Math.min(lease, flight.atMost - began);
    this.until = began + sure;
    // A lease that comes out short has reached the maximum age, and no renewal makes it longer.
    const renewal = this.request.kept && lease >= asked / 2 ? began + sure / 3 : Infinity;
    this.renewal = this.doubted ? Math.min(this.renewal, renewal) : renewal;
    this.desk.plan(this.due);
    this.shorten(began, sure);
  }

  /** The lease that is about to be set, even if no answer comes. Before the claim, the length of the server's default is unknown. */
  private extends(began: number) {
    const lease = this.lease ?? (this.claimed ? this.whole : Infinity);
    this.shorten(began, lease);
    return this.desk.departs(this, lease);
  }

  /** Applies a shorter lease to all that share the grant. The server may handle their pending commands before or after this one. */
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
   * Sends an extension. If the grant is in doubt, sends an acquire instead, so that the server learns the channel and the connection anew;
   * the fence in the answer tells whether the grant is still the old one.
   */
  private async renew() {
    this.renewal = Infinity;
    if (this.renewing) return;
    const began = now(), asks = this.doubted, { kept } = this.request;
    this.renewing = true;
    this.doubted = false;
    const flight = asks ? this.desk.departs(this) : this.extends(began);
    try {
      // An acquire never makes a lease shorter, so a claimed lock without renewals asks for the shortest one.
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
        if (fences.length) this.giveBack(fences); // a new grant, which the holder doesn't know
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

  /** Tells the holder of its first loss. Later ones are ignored. */
  private tell(why: string, cause?: unknown) {
    const said = why === NOT_HELD ? message(cause) : why; // the server's message contains the key
    const loss = new LockLostError(`${this.keys.join(", ")}: ${said}`, why, { cause });
    if (!this.loss) {
      this.loss = loss;
      this.aborter?.abort(loss);
    }
    return loss;
  }

  /** The server does not know the grant, so it is lost for all that share it. */
  private gone(why: string, cause?: unknown) {
    for (const entry of this.desk.ofOwner(this.owner)) {
      if (entry instanceof Held && this.fences.every((fence) => entry.fences.includes(fence))) entry.lose(why, cause);
    }
  }

  private lose(why: string, cause?: unknown) {
    // The answer to the release decides. In a cluster, the release may have overtaken commands that were sent before it.
    if (this.loss || this.parting) return;
    this.leaves(this.tell(why, cause));
    this.giveBack(this.fences); // if only the network failed, or only one of several locks was lost, the server still has some
  }

  private giveBack(fences: readonly number[]) {
    if (this.desk.leaveTo(this, fences)) return; // a wait that gets no grant of its own will release this one
    this.desk.deliver(this.request, this.request.release(fences), now() + this.whole).catch(() => {});
  }
}
