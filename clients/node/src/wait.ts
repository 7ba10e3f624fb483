// A wait for a lock: it has a place in the server's queue, and blocks no connection.
import { AsyncLocalStorage } from "node:async_hooks";
import { SILENCE } from "./connection.js";
import { ClosedError, DeadlockError, NotAcquiredError, code, explained, isSyntax } from "./errors.js";
import { Held } from "./held.js";
import { now, sleep, TRY_AGAIN, type Desk, type Entry, type Flight } from "./desk.js";
import { tell, type Observer, type Outcome } from "./observer.js";
import type { Request } from "./request.js";

/** In ms. Less than the server's setting lock.claim, so a lost message delays the grant but does not lose it. */
const ASK_AGAIN = 4000;
/** The longest time in ms that a caller waits for a place to be given up. */
const PARTING = 40;
/** One object for all waits: making an Error is slow, because it records the stack. */
const NO_ANSWER = new Error("no answer from the server");

export class Wait implements Entry {
  readonly parting = false;
  left: readonly number[] = [];
  place = false;
  due: number;
  readonly #end: number;
  readonly #began = now();
  #asCaller: ((call: () => void) => void) | undefined;
  #waits = false; // the observer was told that the acquire waits
  #asking: Promise<unknown> | undefined;
  #busy = false;
  #again = false;
  #over = false;
  #asks = 0; // the number of the acquire that was sent last
  #asked = 0; // when the last acquire was sent
  #told: readonly number[] | undefined; // a start message that came before the reply to its acquire
  #unsure = false; // an answer was lost, so the server may have granted the lock
  #trouble: unknown = NO_ANSWER; // the last error, or this one
  readonly #lost: number[] = [];

  constructor(
    readonly desk: Desk,
    readonly request: Request,
    readonly resolve: (held: Held) => void,
    readonly reject: (reason: unknown) => void,
  ) {
    this.due = this.#end = this.#began + (request.options.wait || Infinity);
    // Observers run in the async context of the caller of acquire, whose trace they may belong to.
    if (desk.observer) this.#asCaller = AsyncLocalStorage.snapshot();
  }

  start() {
    const { signal } = this.request.options;
    if (signal?.aborted) return this.#cancel();
    if (this.desk.closed) return void this.end(new ClosedError("the locks were closed"));
    this.desk.add(this);
    signal?.addEventListener("abort", this.#cancel);
    void this.#ask();
  }

  readonly #cancel = () => void this.end(this.request.options.signal?.reason, "cancelled");

  tick() {
    if (now() >= this.#end) return void this.end(this.#notAcquired());
    this.due = this.#end;
    void this.#ask();
  }

  hear(word: string, numbers: readonly number[]) {
    if (word === "lost") this.#lost.push(numbers[0]!);
    else if (word === "start") {
      if (numbers[3] !== this.#asks) return; // late: another acquire has been sent since
      this.#told = numbers;
      if (!this.#asking && !this.#begin()) void this.#ask();
    } else void this.#ask(); // another wait of this owner has timed out, unless our own clock says so
  }

  doubt() {
    if (this.request.channel !== this.desk.channel) this.cut(); // nothing else tells of a cut in a cluster
    void this.#ask();
  }

  cut() {
    this.#unsure ||= this.#asking !== undefined; // ioredis sends the command again by itself
  }

  /** Sends an acquire, unless one awaits its answer. */
  async #ask() {
    this.#again = this.#busy;
    if (this.#busy || this.#over) return;
    this.#busy = true;
    const { request } = this, { wait, lease } = request.options;
    let start = false, flight: Flight | undefined;
    this.due = this.#end;
    try {
      const channel = await this.desk.listens(request);
      if (this.#over || this.desk.isLeft(request)) return;
      const began = (this.#asked = now());
      const block = wait === 0 ? undefined : wait ? Math.max(1, Math.ceil(this.#end - began)) : 0;
      flight = this.desk.departs(this);
      this.#asks += 1;
      this.#told = undefined;
      start = request.starts && this.desk.starts;
      const words = request.acquire(channel, block, lease, start ? this.#asks : undefined);
      this.#asking = this.desk.send(request, words);
      const reply = await this.#asking;
      this.#asking = this.#trouble = undefined;
      this.#unsure &&= !Array.isArray(reply) && request.keys.length > 1; // without one of them, it may hold the others
      this.place ||= reply !== null;
      if (this.#over) return; // #part handles the reply
      if (Array.isArray(reply)) this.#hold(reply[1], reply[4], Number(reply[3]), began, flight);
      else if (reply === null) void this.end(this.#notAcquired());
      else {
        if (!this.#waits) this.#tell((observer) => tell(observer, "waiting", request));
        this.#waits = true;
        if (this.#over) return; // the observer may have ended the wait
        this.#plan(ASK_AGAIN);
        if (this.#told && !this.#begin()) this.#again = true;
      }
    } catch (error) {
      const passes = this.desk.passes(error), sent = this.#asking !== undefined;
      this.#unsure ||= passes && sent; // a refusal does not say whether an earlier acquire without an answer got the lock
      this.place ||= code(error) === "NOREPLICAS"; // the unclaimed place or grant may still be there
      if (this.#over) return;
      const hasAnotherTry = sent && this.#asks < 2 && now() < this.#asked + SILENCE; // another try would wait as long
      this.#asking = this.#told = undefined;
      this.#trouble = error;
      if (start && isSyntax(error)) {
        this.desk.starts = false; // the server does not know START: claim from now on
        this.#again = true;
      } else if (passes && (wait !== 0 || hasAnotherTry)) this.#plan(TRY_AGAIN);
      else void this.end(code(error) === "GRACE" ? this.#notAcquired() : explained(error, request.keys));
    } finally {
      if (flight) this.desk.lands(flight);
      this.#busy = false;
      if (this.#again) void this.#ask();
    }
  }

  #tell(call: (observer: Observer) => void) {
    const { observer } = this.desk;
    if (observer) this.#asCaller!(() => call(observer));
  }

  #plan(pause: number) {
    this.due = Math.min(this.#end, now() + pause);
    this.desk.plan(this.due);
  }

  #notAcquired() {
    const keys = this.request.keys.join(", "), cause = this.#trouble;
    return new NotAcquiredError(cause ? `could not ask for ${keys}: ${cause}` : `${keys} is not free`, { cause });
  }

  #outcome(reason: unknown) {
    if (reason instanceof NotAcquiredError) return this.request.options.wait === 0 ? "busy" : "timeout";
    return reason instanceof DeadlockError ? "deadlock" : reason instanceof ClosedError ? "closed" : "error";
  }

  #leaveDesk() {
    this.#over = true;
    this.desk.remove(this);
    this.request.options.signal?.removeEventListener("abort", this.#cancel);
  }

  /**
   * Whether the lock is held from the start message on. The message repeats the number of the last acquire, so the grant is younger than
   * this acquire: its lease safely counts from when this was sent. If too little time is left, the wait asks again.
   */
  #begin() {
    const [fence, lasts, slot] = this.#told as [number, number, number];
    this.#told = undefined;
    if (this.#asked + lasts - now() < lasts / 5 || this.#lost.includes(fence)) return false;
    this.#hold(fence, slot || undefined, lasts, this.#asked);
    return true;
  }

  #hold(fences: unknown, slots: unknown, left: number, began: number, flight?: Flight) {
    const held = new Held(this.desk, this.request, fences, slots, left, began, flight);
    this.#leaveDesk();
    this.#tell((observer) => tell(observer, "acquired", this.request, now() - this.#began, held.fence));
    for (const fence of this.#lost) held.hear("lost", [fence]); // the message came before the reply
    this.resolve(held);
  }

  /** Ends the wait. Its place or grant is given up in the background, if this takes longer. */
  async end(reason: unknown, outcome?: Outcome) {
    if (this.#over) return;
    this.#leaveDesk();
    this.#tell((observer) => tell(observer, "refused", this.request, now() - this.#began, outcome ?? this.#outcome(reason), reason));
    const parted = this.#part().catch(() => {});
    await Promise.race([parted, sleep(PARTING)]);
    this.reject(reason);
    await parted;
  }

  async #part() {
    const { desk, request } = this;
    const until = now() + (request.options.lease ?? 30_000);
    const reply = await this.#asking?.catch(() => {}); // #ask has handled the error
    const granted = Array.isArray(reply), fences = granted ? [reply[1]].flat().map(Number) : this.left;
    if (desk.leaveTo(this, fences, !granted && (this.place || this.#unsure))) return;
    const released = fences.length ? desk.deliver(request, request.release(fences), until) : undefined;
    if (granted) return released;
    await released?.catch(() => {}); // the entry that left this grant may have lost it before
    if (!this.place && !this.#unsure) return desk.wake(request.owner);
    const left = await desk.deliver(request, request.leave(), until);
    // The lock may have been granted, with the message on its way; of several, some may be held beside the place. A named owner is left
    // alone: it may hold the lock in another process.
    const perhaps = this.#unsure || request.starts;
    if ((!left || request.keys.length > 1) && perhaps && !request.options.owner) await desk.deliver(request, request.release([]), until);
  }
}
