// The worker processes: each does one job and sends back what the job gives.
import { setTimeout as sleep } from "node:timers/promises";
import { connect, openLocks } from "./support.mjs";

const jobs = {
  /** Numbers, each the highest so far plus one, read and written in two steps. */
  async handOut(port, { count }) {
    const client = connect(port);
    const { withLock, close } = await openLocks(client);
    await client.incr("ready");
    while ((await client.get("ready")) < 8) await sleep(1); // all begin together
    for (let done = 0; done < count; done += 1) {
      await withLock("numbers", async () => {
        const number = Number(await client.hget("numbers:state", "highest")) + 1;
        await sleep(0); // the others' chance
        await client.hset("numbers:state", "highest", number);
        await client.rpush("handed out", number);
      });
    }
    close();
    client.disconnect();
  },

  /** That many buyers at once, on one connection, are told yes or no. */
  async buy(port, { sku, buyers }) {
    const client = connect(port);
    const { withLock, close } = await openLocks(client);
    const buy = () =>
      withLock(`lock:sku:${sku}`, async () => {
        const left = Number(await client.get(`stock:${sku}`));
        await sleep(0); // the others' chance
        if (left > 0) await client.set(`stock:${sku}`, left - 1);
        return left > 0 ? "yes" : "no";
      });
    const answers = await Promise.all(Array.from({ length: buyers }, buy));
    close();
    client.disconnect();
    return answers;
  },
};

process.once("message", async ({ job, port, args }) => {
  process.send((await jobs[job](port, args)) ?? null, () => process.disconnect());
});
