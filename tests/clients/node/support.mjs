// What the tests share: a server with the module, connections to it, waiting.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

export const connect = (port, options = {}) => new Redis({ host: "127.0.0.1", port, ...options });

/** The condition's value, as soon as it is true. */
export async function waitFor(condition, what, milliseconds = 30_000) {
  const end = performance.now() + milliseconds;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert(performance.now() < end, `not within ${milliseconds} ms: ${what}`);
    await sleep(2);
  }
}

/** LOCK.INFO as an object: ioredis gives a map as an object where it is told to, else as a flat array of pairs. */
export async function info(client, key) {
  const reply = await client.call("LOCK.INFO", key);
  if (!Array.isArray(reply)) return reply;
  return Object.fromEntries(reply.flatMap((name, at) => (at % 2 ? [] : [[name, reply[at + 1]]])));
}

/** A server of its own on a free port of the loopback, with all that a test starts beside it. */
class Scene {
  #server;
  #clients = [];

  /** Waits until the server answers. Where someone has taken the free port in the meantime, it tries another. */
  async start() {
    this.folder = await mkdtemp(join(tmpdir(), "redislock-node-"));
    for (let attempt = 0; attempt < 5; attempt += 1) {
      await this.#spawn();
      const ended = () => this.#server.exitCode !== null;
      await waitFor(async () => ended() || (await this.#answers()), "PONG");
      if (!ended()) return;
      if (!(await this.log()).includes("Address already in use")) break;
    }
    throw new Error("the server ended at once");
  }

  async #spawn() {
    const free = createServer().listen(0, "127.0.0.1");
    await once(free, "listening");
    this.port = free.address().port;
    free.close();
    await once(free, "close");
    const { REDISLOCK_SERVER = "redis-server", REDISLOCK_SO } = process.env;
    const args = ["--port", this.port, "--bind", "127.0.0.1", "--dir", this.folder, "--save", ""];
    args.push("--logfile", join(this.folder, "server.log"), "--loadmodule", REDISLOCK_SO);
    this.#server = spawn(REDISLOCK_SERVER, args, { stdio: ["ignore", "ignore", "inherit"] });
    await once(this.#server, "spawn");
  }

  /** Whether this server, and not another one that has the port, is up. */
  async #answers() {
    const options = { lazyConnect: true, retryStrategy: null, connectTimeout: 1000, commandTimeout: 1000 };
    const client = connect(this.port, options).on("error", () => {});
    try {
      await client.ping();
      return (await client.info("server")).includes(`process_id:${this.#server.pid}\r`);
    } catch {
      return false;
    } finally {
      client.disconnect();
    }
  }

  connect(options) {
    this.#clients.push(connect(this.port, options));
    return this.#clients.at(-1);
  }

  async end() {
    for (const client of this.#clients) client.disconnect();
    const server = this.#server;
    if (!server?.pid || server.exitCode !== null || server.signalCode !== null) return;
    server.kill("SIGKILL");
    await once(server, "exit");
  }

  log() {
    return readFile(join(this.folder, "server.log"), "utf8").catch(() => "none");
  }
}

/** A test with a server. One that fails shows the server's log. */
export function testWithServer(name, body) {
  test(name, { timeout: 120_000 }, async (t) => {
    const scene = new Scene();
    // Where the test runs out of time its function never comes to an end, but this is called.
    t.after(async () => {
      await scene.end();
      if (scene.folder) await rm(scene.folder, { recursive: true, force: true });
    });
    try {
      await scene.start();
      await body(scene);
    } catch (error) {
      t.diagnostic(`server log:\n${await scene.log()}`);
      throw error;
    }
  });
}
