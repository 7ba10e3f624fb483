// 1,000 tasks at once that want one lock, or 100, one round each: what that costs with the package and with node-redlock.
//
// crowd.mjs ADDRESS [RUNS]: prints a table of the medians of so many runs, by turns. The server at that address has the module,
// and no other clients: their commands would be counted. Each trial is a process of its own, crowd.mjs ADDRESS WHO LOCKS, which
// prints what it counted.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Locks } from "redislock-client";
import { default as Redlock } from "redlock";

const TASKS = 1000, LEASE_MS = 30_000, LIMIT_MS = 90_000;
const WHO = {
  ioredis: "the package, ioredis",
  "node-redis": "the package, node-redis",
  redlock: "node-redlock, by default: 10 more tries, each after 200 ms",
  "redlock-for-ever": "node-redlock, `retryCount: -1`",
};

/** What takes a lock and gives it back around `body`, and what closes the client. */
const makers = {
  ioredis(host, port) {
    const client = new Redis(port, host), locks = new Locks(client);
    return { using: (key, body) => locks.using(key, { lease: LEASE_MS }, body), close: () => locks.close().then(() => client.quit()) };
  },
  async "node-redis"(host, port) {
    const client = await createClient({ socket: { host, port } }).connect(), locks = new Locks(client);
    return { using: (key, body) => locks.using(key, { lease: LEASE_MS }, body), close: () => locks.close().then(() => client.close()) };
  },
  redlock(host, port, settings) {
    const client = new Redis(port, host), redlock = new Redlock([client], settings);
    return { using: (key, body) => redlock.using([key], LEASE_MS, body), close: () => client.quit() };
  },
  "redlock-for-ever": (host, port) => makers.redlock(host, port, { retryCount: -1 }),
};

async function trial(host, port, who, locks) {
  const watch = new Redis(port, host);
  await watch.config("RESETSTAT");
  const { using, close } = await makers[who](host, port);
  const waits = [], errors = {}, begin = performance.now();
  const work = async (number) => {
    try {
      await using(`crowd:${process.pid}:${number % locks}`, async () => void waits.push(performance.now() - begin));
    } catch (error) {
      errors[error.name] = (errors[error.name] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: TASKS }, (_, number) => work(number)));
  const seconds = (performance.now() - begin) / 1000;
  const stats = await watch.info("commandstats"), connections = Number(/total_connections_received:(\d+)/.exec(await watch.info("stats"))[1]);
  // What a script calls is counted as well, but was not sent. node-redlock sends scripts alone.
  const sent = stats.matchAll(/cmdstat_(lock\.|eval|script|subscribe|ping)[^:]*:calls=(\d+)/g);
  const commands = [...sent].reduce((sum, match) => sum + Number(match[2]), 0);
  await close();
  await watch.quit();
  console.log(JSON.stringify({ rate: waits.length / seconds, commands, connections, longest: Math.max(0, ...waits) / 1000, errors }));
}

const median = (numbers) => {
  const sorted = numbers.toSorted((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};
const whole = (number) => Math.round(number).toLocaleString("en");

/** One cell of the table, from the results of all runs. */
function cell(results) {
  const done = results.filter(Boolean), late = results.length - done.length;
  if (!done.length) return `not done within ${LIMIT_MS / 1000} s`;
  const middle = (name) => median(done.map((result) => result[name]));
  const rates = done.map(({ rate }) => rate);
  let text = `${whole(middle("rate"))}/s (${whole(Math.min(...rates))} to ${whole(Math.max(...rates))}), ${whole(middle("commands"))}, `;
  text += `${whole(middle("connections"))}, ${middle("longest").toFixed(1)} s`;
  for (const name of new Set(done.flatMap(({ errors }) => Object.keys(errors)))) {
    const counts = done.map(({ errors }) => errors[name] ?? 0);
    text += `; ${[...new Set([Math.min(...counts), Math.max(...counts)])].join(" to ")} got \`${name}\``;
  }
  return late ? `${text}; ${late} not done within ${LIMIT_MS / 1000} s` : text;
}

async function attempt(...words) {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [fileURLToPath(import.meta.url), ...words], { timeout: LIMIT_MS });
    return JSON.parse(stdout);
  } catch (error) {
    if (error.killed) return undefined;
    throw error;
  }
}

async function table(address, runs) {
  const results = new Map(Object.keys(WHO).map((who) => [who, { 1: [], 100: [] }]));
  for (let run = 0; run < runs; run += 1) {
    for (const [who, of] of results) for (const locks of [1, 100]) of[locks].push(await attempt(address, who, String(locks)));
  }
  console.log("| | one lock: grants/s, commands, connections, longest wait | 100 locks |\n|---|---|---|");
  for (const [who, of] of results) console.log(`| ${WHO[who]} | ${cell(of[1])} | ${cell(of[100])} |`);
}

const [address, second, locks] = process.argv.slice(2);
const [host, port] = address.split(":");
await (locks ? trial(host, Number(port), second, Number(locks)) : table(address, Number(second ?? 5)));
