// A wait for a lock: a place in the server's queue, which takes no connection.
import { AsyncLocalStorage } from "node:async_hooks";
import { SILENCE } from "./connection.js";
import { ClosedError, DeadlockError, NotAcquiredError, code, explained, isSyntax } from "./errors.js";
import { Held } from "./held.js";
import { now, sleep, TRY_AGAIN, type Desk, type Entry, type Flight } from "./desk.js";
import { tell, type Observer, type Outcome } from "./observer.js";
import type { Request } from "./request.js";

/** Less than lock.claim: a lost message costs seconds, but never the lock. */
const ASK_AGAIN = 4000;
/** Nobody waits longer than that to see that a place was given up. */
const PARTING = 40;
/** One for all: each new one would look through the stack. */
const NO_ANSWER = new Error("no answer from the server");

export class Wait implements Entry {
  readonly parting = false;
  left: readonly number[] = [];
  place = false;
  due: number;
  readonly #end: number;
  readonly #began = now();
  #asCaller: ((call: () => void) => void) | undefined;
  #waits = false; // it was not free
  #asking: Promise<unknown> | undefined;
  #busy = false;
  #again = false;
  #over = false;
  #asks = 0; // the number of the acquire that was sent last
  #asked = 0; // when that was
  #told: readonly number[] | undefined; // a message that answers an acquire whose reply has not come yet
  #unsure = false; // an answer was lost, so the lock may be held
  #trouble: unknown = NO_ANSWER; // until there is one
  readonly #lost: number[] = [];

  constructor(
    readonly desk: Desk,
    readonly request: Request,
    readonly resolve: (held: Held) => void,
    readonly reject: (reason: unknown) => void,
  ) {
    this.due = this.#end = this.#began + (request.options.wait || Infinity);
    // The observer is called as by the caller of acquire, whose trace it may belong to.
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
      if (numbers[3] !== this.#asks) return; // it is late: the lock has been asked for again since
      this.#told = numbers;
      if (!this.#asking && !this.#begin()) void this.#ask();
    } else void this.#ask(); // that was the wait of another one of this owner, unless our own clock says so
  }

  doubt() {
    void this.#ask();
  }

  cut() {}

  /** Has at most one request on its way. */
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
      this.#unsure = false;
      this.place ||= reply !== null;
      if (this.#over) return; // #part sees the reply
      if (Array.isArray(reply)) this.#hold(reply[1], reply[4], Number(reply[3]), began, flight);
      else if (reply === null) void this.end(this.#notAcquired());
      else {
        if (!this.#waits) this.#tell((observer) => tell(observer, "waiting", request));
        this.#waits = true;
        if (this.#over) return; // by the observer
        this.#plan(ASK_AGAIN);
        if (this.#told && !this.#begin()) this.#again = true;
      }
    } catch (error) {
      const passes = this.desk.passes(error), sent = this.#asking !== undefined;
      this.#unsure ||= passes && sent; // a refusal says nothing of an earlier one that got no answer
      this.place ||= code(error) === "NOREPLICAS"; // it may be there still, and unclaimed
      if (this.#over) return;
      const hasAnotherTry = sent && this.#asks < 2 && now() < this.#asked + SILENCE; // one at a silent server would take as long again
      this.#asking = this.#told = undefined;
      this.#trouble = error;
      if (start && isSyntax(error)) {
        this.desk.starts = false; // an older server: claim first
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
   * Whether the lock is held from the message on. The grant is younger than what was asked last, since the message says the
   * number of that: so what is believed ends as if it had been made then. If too little is left, asking again tells what has
   * become of it.
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
    for (const fence of this.#lost) held.hear("lost", [fence]); // the message was faster than the reply
    this.resolve(held);
  }

  /** What can't be given up now is given up later. */
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
    const reply = await this.#asking?.catch(() => {}); // #ask has seen it before
    const granted = Array.isArray(reply), fences = granted ? [reply[1]].flat().map(Number) : this.left;
    if (desk.leaveTo(this, fences, !granted && (this.place || this.#unsure))) return;
    const released = fences.length ? desk.deliver(request, request.release(fences), until) : undefined;
    if (granted) return released;
    await released?.catch(() => {}); // the one that left it may have held it no longer
    if (!this.place && !this.#unsure) return desk.wake(request.owner);
    const left = await desk.deliver(request, request.leave(), until);
    // The message of a grant may be on its way. An owner that the caller named may hold the lock in another process.
    const perhaps = this.#unsure || request.starts;
    if (!left && perhaps && !request.options.owner) await desk.deliver(request, request.release([]), until);
  }
}
