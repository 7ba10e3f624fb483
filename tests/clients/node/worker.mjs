// The worker processes: each does one job and sends back what the job gives.
import { setTimeout as sleep } from "node:timers/promises";
import { connect, withLock } from "./support.mjs";

const jobs = {
  /** Numbers, each the highest so far plus one, read and written in two steps. */
  async handOut(port, { count }) {
    const client = connect(port);
    await client.incr("ready");
    while ((await client.get("ready")) < 8) await sleep(1); // all begin together
    for (let done = 0; done < count; done += 1) {
      await withLock(client, "numbers", async () => {
        const number = Number(await client.hget("numbers:state", "highest")) + 1;
        await sleep(0); // the others' chance
        await client.hset("numbers:state", "highest", number);
        await client.rpush("handed out", number);
      });
    }
    client.disconnect();
  },

  /** That many buyers at once, each with a connection of its own, are told yes or no. */
  buy(port, { sku, buyers }) {
    const buy = async () => {
      const client = connect(port);
      const left = await withLock(client, `lock:sku:${sku}`, async () => {
        const left = Number(await client.get(`stock:${sku}`));
        await sleep(0); // the others' chance
        if (left > 0) await client.set(`stock:${sku}`, left - 1);
        return left;
      });
      client.disconnect();
      return left > 0 ? "yes" : "no";
    };
    return Promise.all(Array.from({ length: buyers }, buy));
  },
};

process.once("message", async ({ job, port, args }) => {
  process.send((await jobs[job](port, args)) ?? null, () => process.disconnect());
});
