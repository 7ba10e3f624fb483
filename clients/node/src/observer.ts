// The events that locks report while they are waited for and held.
import type { LockLostError } from "./errors.js";

/** Describes the locks of one acquire. All its events get the same object. */
export interface Observed {
  readonly keys: readonly string[];
  readonly owner: string;
  readonly mode: "exclusive" | "shared" | "limit";
}

export type Outcome = "timeout" | "busy" | "cancelled" | "deadlock" | "closed" | "error";

/**
 * Implement the methods that you need; times are ms. Each `waiting` is followed by one `acquired` or `refused`, and each `acquired` by one
 * `released` or `lost`; a re-entry is a lock of its own. Errors of an observer are logged, and change nothing.
 */
export interface Observer {
  /** The lock is not free, and the wait begins. */
  waiting?(lock: Observed): void;
  /** `waited` is the time since the call of `acquire`, also if the lock was free. */
  acquired?(lock: Observed, waited: number, fence: number): void;
  /** The acquire rejects with this error. */
  refused?(lock: Observed, waited: number, outcome: Outcome, error: unknown): void;
  /** The holder released the lock. */
  released?(lock: Observed, held: number): void;
  /** The lock ended before its release. `error.reason` says why: one of a few texts, or the code of the server's error. */
  lost?(lock: Observed, held: number, error: LockLostError): void;
}

const log = (error: unknown) => console.error("redislock: an observer failed:", error);

/** Calls this method of the observer, if it has one. */
export function tell<Event extends keyof Observer>(observer: Observer, event: Event, ...what: Parameters<Required<Observer>[Event]>) {
  try {
    const told: unknown = (observer[event] as ((...what: unknown[]) => unknown) | undefined)?.call(observer, ...what);
    if (told instanceof Promise) told.catch(log);
  } catch (error) {
    log(error);
  }
}
