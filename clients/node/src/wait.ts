// A wait for a lock: a place in the server's queue, which takes no connection.
import { NotAcquiredError, explained } from "./errors.js";
import { Held } from "./held.js";
import { now, sleep, TRY_AGAIN, type Desk, type Entry } from "./desk.js";
import type { Request } from "./request.js";

/** Less than lock.claim: a lost message costs seconds, but never the lock. */
const ASK_AGAIN = 4000;
/** Nobody waits longer than that to see that a place was given up. */
const PARTING = 40;

export function acquire(desk: Desk, request: Request) {
  return new Promise<Held>((resolve, reject) => new Wait(desk, request, resolve, reject).start());
}

class Wait implements Entry {
  readonly parting = false;
  left: readonly number[] = [];
  due: number;
  readonly #end: number;
  #asking: Promise<unknown> | undefined;
  #busy = false;
  #again = false;
  #over = false;
  #place = false;
  #unsure = false; // an answer was lost, so the lock may be held
  #trouble: unknown = new Error("no answer from the server"); // until there is one
  readonly #lost = new Set<number>();

  constructor(
    readonly desk: Desk,
    readonly request: Request,
    readonly resolve: (held: Held) => void,
    readonly reject: (reason: unknown) => void,
  ) {
    this.due = this.#end = now() + (request.options.wait || Infinity);
  }

  start() {
    this.desk.add(this);
    this.request.options.signal?.addEventListener("abort", this.#cancel);
    void this.#ask();
  }

  readonly #cancel = () => this.end(this.request.options.signal?.reason);

  tick() {
    if (now() >= this.#end) return void this.end(this.#notAcquired());
    this.#plan(ASK_AGAIN);
    void this.#ask();
  }

  hear(word: string, fence: number) {
    if (word === "lost") this.#lost.add(fence);
    else if (word !== "timeout") void this.#ask(); // our own clock tells that the wait is over
  }

  doubt() {
    void this.#ask();
  }

  cut() {}

  /** Has at most one request on its way. */
  async #ask() {
    this.#again = true;
    if (this.#busy) return;
    this.#busy = true;
    while (this.#again && !this.#over) {
      this.#again = false;
      await this.#askOnce();
    }
    this.#busy = false;
  }

  async #askOnce() {
    const { wait, lease } = this.request.options;
    this.#plan(ASK_AGAIN);
    try {
      await this.desk.subscribed();
      if (this.#over) return;
      const began = now();
      const block = wait ? Math.max(1, Math.ceil(this.#end - began)) : 0;
      this.#place = wait !== 0;
      this.#asking = this.desk.send(this.request, this.request.acquire(this.desk.channel, wait === 0 ? undefined : block, lease));
      const reply = await this.#asking;
      this.#asking = this.#trouble = undefined;
      if (this.#over) return; // #part saw the reply
      if (Array.isArray(reply)) this.#hold(reply, began);
      else if (reply === null) void this.end(this.#notAcquired());
    } catch (error) {
      if (this.#over) return;
      this.#unsure = this.#asking !== undefined && this.desk.passes(error);
      this.#asking = undefined;
      this.#trouble = error;
      if (wait !== 0 && this.desk.passes(error)) this.#plan(TRY_AGAIN);
      else void this.end(explained(error, this.request.keys));
    }
  }

  #plan(pause: number) {
    this.due = Math.min(this.#end, now() + pause);
    this.desk.plan(this.due);
  }

  #notAcquired() {
    const keys = this.request.keys.join(", "), cause = this.#trouble;
    return new NotAcquiredError(cause ? `could not ask for ${keys}: ${cause}` : `others hold ${keys}`, { cause });
  }

  #leaveDesk() {
    this.#over = true;
    this.desk.remove(this);
    this.request.options.signal?.removeEventListener("abort", this.#cancel);
  }

  #hold(reply: unknown[], began: number) {
    this.#leaveDesk();
    const held = new Held(this.desk, this.request, reply, began);
    for (const fence of this.#lost) held.hear("lost", fence); // the message was faster than the reply
    this.resolve(held);
  }

  /** What can't be given up now is given up later. */
  async end(reason: unknown) {
    if (this.#over) return;
    this.#leaveDesk();
    await Promise.race([this.#part().catch(() => {}), sleep(PARTING)]);
    this.reject(reason);
  }

  async #part() {
    const { desk, request } = this;
    const until = now() + (request.options.lease ?? 30_000);
    const reply = await this.#asking?.catch((error) => void (this.#unsure ||= desk.passes(error)));
    const granted = Array.isArray(reply), fences = granted ? [reply[1]].flat().map(Number) : this.left;
    if (desk.leaveTo(this, fences)) return;
    const released = fences.length ? desk.deliver(request, request.release(fences), until) : undefined;
    if (granted) return released;
    await released?.catch(() => {}); // the one that left it may have held it no longer
    const left = this.#place && (await desk.deliver(request, request.leave(), until));
    // An owner that the caller named may hold the lock in another process.
    if (!left && this.#unsure && !request.options.owner) await desk.deliver(request, request.release([]), until);
  }
}
