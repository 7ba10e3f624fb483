// The errors of this package, and the meaning of the server's errors.

/** Base of all errors of this package, except for bad input, which is a TypeError or a RangeError. */
export class LockError extends Error {
  override get name() {
    return this.constructor.name;
  }
}

/** The lock was not free until the wait was over. `cause` is set if the server could not be reached at the end. */
export class NotAcquiredError extends LockError {}

/** The lock has ended without a release, so somebody else may hold it now. */
export class LockLostError extends LockError {
  /** Why: one of a few texts, or the code of the server's error. */
  readonly reason: string;
  constructor(message: string, reason: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** The locks were closed, or their client. */
export class ClosedError extends LockError {}

/** This wait would never end: release what this task holds, and start over. */
export class DeadlockError extends LockError {
  /** Tells who waits for whom. */
  readonly cycle: string;
  constructor(message: string, cycle: string, options?: ErrorOptions) {
    super(message, options);
    this.cycle = cycle;
  }
}

/** Too few replicas confirmed the lock or the extension in time (`sync`). */
export class NotConfirmedError extends LockError {}

/** The server has no lock commands. */
export class NoModuleError extends LockError {}

/** The server's Redislock is older than an option that was used. */
export class TooOldError extends LockError {}

export const NOT_HELD = "the server says that it is not held";

export const message = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** The code of an error that the server sent, such as NOTHELD; undefined if the error is of the client or the connection. */
export const code = (error: unknown) => /^[A-Z][A-Z0-9]+(?= )/.exec(message(error))?.[0];

/** Whether the server does not know an option. */
export const isSyntax = (error: unknown) => message(error).startsWith("ERR syntax error");

/** Errors of a server that can't serve the command at the moment, or is no longer the right one to ask. */
const PASSING = [
  "ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "NOREPLICAS Not enough", "READONLY", "TRYAGAIN", "UNBLOCKED",
];

/** Whether to ask again later: the connection is lost, or the server can't serve the command at the moment. */
export function passes(error: unknown) {
  if (error instanceof LockError) return false;
  return code(error) === undefined || PASSING.some((said) => message(error).startsWith(said));
}

/** Converts an error of the server to one of this package; returns any other error as it is. */
export function explained(cause: unknown, keys: readonly string[]): unknown {
  const said = message(cause), locks = keys.join(", ");
  if (said.startsWith("NOTHELD")) return new LockLostError(`${locks}: ${said}`, NOT_HELD, { cause });
  if (said.startsWith("DEADLOCK ")) return new DeadlockError(`${locks}: ${said}`, said.slice("DEADLOCK ".length), { cause });
  if (said.startsWith("NOREPLICAS too few")) return new NotConfirmedError(`${locks}: ${said}`, { cause });
  if (/^ERR unknown command/i.test(said)) {
    const text = "this server has no Redislock module: load libredislock.so with loadmodule in its configuration, and check it with MODULE LIST";
    return new NoModuleError(text, { cause });
  }
  if (isSyntax(cause)) {
    const text = "this server's Redislock doesn't know an option that was used: upgrade the module, or leave the option out";
    return new TooOldError(text, { cause });
  }
  return cause;
}
