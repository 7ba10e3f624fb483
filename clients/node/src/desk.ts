// What all locks of a client share: the connection, the subscription, the timer.
import { hostname } from "node:os";
import { ClosedError, passes } from "./errors.js";
import type { Connection } from "./connection.js";
import type { Observer } from "./observer.js";
import type { Request } from "./request.js";

/** After a lost connection. */
export const TRY_AGAIN = 100;

/** Nobody who closes a client waits longer for its locks to be released. */
const AT_END = 1000;

/** Never goes back, unlike the clock of the day. */
export const now = () => performance.now();

export const sleep = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

/** The messages that matter, and how many numbers they have. */
const NUMBERS = new Map([["start", 4], ["granted", 1], ["lost", 1], ["timeout", 0], ["gone", 0]]);

/** A command on its way whose answer tells the lease. */
export interface Flight {
  readonly of: Entry;
  /** When the lease ends at the latest, whatever the answer says. */
  atMost: number;
  /** The lease, if it is an extension. */
  readonly sets: number;
}

/** A wait, or a lock that is held. */
export interface Entry {
  readonly request: Request;
  /** It is being released. */
  readonly parting: boolean;
  /** The grant of another one that has left it to this one. */
  left: readonly number[];
  /** It may have a place, or that of another one. */
  place: boolean;
  /** When there is something to do: `tick` does it. */
  readonly due: number;
  tick(): void;
  /** A message for this owner, and the numbers in it, of which the fence is the first. */
  hear(word: string, numbers: readonly number[]): void;
  /** Messages, and perhaps more, may be lost: find out how things are. */
  doubt(): void;
  /** The connection for commands is lost. */
  cut(): void;
  /** The locks are closed. */
  end(reason: ClosedError): Promise<unknown>;
}

type Lists<One> = Map<string, readonly One[]>; // by owner; a list never changes, so all may go through it

function put<One>(lists: Lists<One>, owner: string, one: One) {
  const others = lists.get(owner);
  lists.set(owner, others ? [...others, one] : [one]);
}

function drop<One>(lists: Lists<One>, owner: string, one: One) {
  const others = lists.get(owner)?.filter((other) => other !== one);
  if (others?.length) lists.set(owner, others);
  else lists.delete(owner);
}

export class Desk {
  /** Operators are shown host and process. */
  readonly channel = `redislock:${hostname().replace(/[^\w.-]/g, "_").slice(0, 64)}:${process.pid}:${crypto.randomUUID()}`;
  /** How often an answer may have been lost. */
  upsets = 0;
  closed = false;
  /** The server knows START, as far as we know. */
  starts = true;
  readonly #connection: Connection;
  readonly #entries = new Map<string, readonly Entry[]>();
  readonly #flights = new Map<string, readonly Flight[]>(); // by owner
  readonly #leaving = new Map<string, readonly Request[]>(); // what is being given up, by owner
  readonly #unwatch: () => void;
  #opening: Promise<void> | undefined;
  #closing = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #next = Infinity;

  constructor(connection: Connection, readonly observer: Observer | undefined) {
    this.#connection = connection;
    this.#unwatch = connection.watch(() => void this.#finish(new ClosedError("the client was closed"), AT_END));
  }

  #all() {
    return [...this.#entries.values()].flat();
  }

  ofOwner(owner: string) {
    return this.#entries.get(owner) ?? [];
  }

  add(entry: Entry) {
    put(this.#entries, entry.request.owner, entry);
    this.plan(entry.due);
  }

  remove(entry: Entry) {
    drop(this.#entries, entry.request.owner, entry);
  }

  /** Whether the same locks are being given up for this owner, which could end the grant that another one enters. */
  isLeft(request: Request) {
    return this.#leaving.get(request.owner)?.some((other) => other.id === request.id);
  }

  /** Those who wait ask when another one of their owner is gone: it may have taken their place with it. */
  wake(owner: string) {
    for (const entry of this.ofOwner(owner)) entry.hear("timeout", []);
  }

  #partner(entry: Entry) {
    const isOne = (other: Entry) => other !== entry && !other.parting && other.request.id === entry.request.id;
    return this.ofOwner(entry.request.owner).find(isOne);
  }

  /** All of its owner's for the same locks, itself too. */
  sharers(entry: Entry) {
    return this.ofOwner(entry.request.owner).filter((other) => other === entry || other.request.id === entry.request.id);
  }

  /** What is on its way of its owner's for the same locks. */
  flights(entry: Entry) {
    return this.#flights.get(entry.request.owner)?.filter((flight) => flight.of.request.id === entry.request.id) ?? [];
  }

  /** An extension of the same grant that is on its way may come behind this command. */
  departs(entry: Entry, sets = Infinity) {
    const others = this.flights(entry).filter((flight) => flight.of !== entry);
    const flight: Flight = { of: entry, sets, atMost: now() + Math.min(...others.map((other) => other.sets)) };
    put(this.#flights, entry.request.owner, flight);
    return flight;
  }

  lands(flight: Flight) {
    drop(this.#flights, flight.of.request.owner, flight);
  }

  /** Leaves that grant or place to such a one, if there is one. Only the last one gives it up, even if it never heard of it. */
  leaveTo(entry: Entry, fences: readonly number[], place = false) {
    const partner = this.#partner(entry);
    if (!partner) return false;
    if (fences.length) partner.left = fences;
    partner.place ||= place;
    this.wake(entry.request.owner);
    return true;
  }

  /** Where messages for it come, once that is heard. */
  async listens(request: Request) {
    await this.opened();
    return (request.channel = (await this.#connection.channelOf?.(request.names[0]!)) ?? this.channel);
  }

  send(request: Request, words: string[]) {
    return this.#connection.send(request.names[0]!, words, request.options.sync?.[1] ?? 0);
  }

  /** Sends it until it is answered, as long as that is worth it. A session's lease is renewed while its connection is open. */
  async deliver(request: Request, words: string[], until: number) {
    put(this.#leaving, request.owner, request);
    try {
      for (;;) {
        try {
          return await this.send(request, words);
        } catch (error) {
          const goesOn = now() <= until || (request.options.session && !this.closed);
          if (!this.passes(error) || !goesOn) throw error;
          this.upsets += 1;
          await sleep(TRY_AGAIN);
        }
      }
    } finally {
      drop(this.#leaving, request.owner, request);
      this.wake(request.owner);
    }
  }

  /** Whether it is worth to try again later. */
  passes(error: unknown) {
    return passes(error) && !this.#connection.closed;
  }

  /** Connects, from the first lock on. */
  opened() {
    if (this.#connection.closed) throw new ClosedError("the client was closed"); // it may be opened again
    return (this.#opening ??= this.#open());
  }

  async #open() {
    const closing = this.#closing;
    const uses = (channel: string) => this.#all().filter((entry) => entry.request.channel === channel);
    const tell = (how: "cut" | "doubt") => (channel?: string) => {
      this.upsets += 1;
      this.starts = true; // it may be another server
      for (const entry of channel === undefined ? this.#all() : uses(channel)) entry[how]();
    };
    try {
      const events = { hear: (message: string) => this.#hear(message), lost: tell("cut"), again: tell("doubt"), needs: (channel: string) => uses(channel).length > 0 };
      await this.#connection.open(this.channel, events, closing.signal);
    } catch (error) {
      if (closing === this.#closing) this.#leave().abort();
      throw error;
    }
  }

  #hear(message: string) {
    let at = message.indexOf(" ");
    const word = message.slice(0, at), count = NUMBERS.get(word), numbers: number[] = [];
    if (count === undefined) return;
    while (numbers.length < count) {
      const end = message.indexOf(" ", at + 1);
      numbers.push(Number(message.slice(at + 1, end)));
      at = end;
    }
    // The owner comes last, because it may contain anything.
    for (const entry of this.ofOwner(message.slice(at + 1))) entry.hear(word, numbers);
  }

  /** One timer for all. */
  plan(due: number) {
    if (due >= this.#next) return;
    clearTimeout(this.#timer);
    this.#next = due;
    this.#timer = setTimeout(() => this.#tick(), Math.min(Math.max(due - now(), 0), 2 ** 31 - 1));
  }

  #tick() {
    this.#next = Infinity;
    const time = now(), entries = this.#all();
    for (const entry of entries) {
      if (entry.due <= time) entry.tick();
      this.plan(entry.due);
    }
  }

  async close() {
    this.closed = true;
    await this.#finish(new ClosedError("the locks were closed"), Infinity);
    this.#unwatch();
  }

  /** What is acquired later, or meanwhile, connects anew. */
  #leave() {
    const closing = this.#closing;
    this.#closing = new AbortController();
    this.#opening = undefined;
    return closing;
  }

  /** Nothing is left that keeps the process. */
  async #finish(reason: ClosedError, patience: number) {
    const closing = this.#leave(), ending = Promise.allSettled(this.#all().map((entry) => entry.end(reason)));
    await (patience === Infinity ? ending : Promise.race([ending, sleep(patience)]));
    closing.abort();
    if (this.#entries.size) return;
    clearTimeout(this.#timer);
    this.#next = Infinity;
  }
}
