import { Queue, QueueEvents, Worker } from "bullmq";
import { Redis } from "ioredis";
import { Locks } from "redislock-client";

/** A BullMQ worker. Of each customer, one job at a time runs in all workers; the others wait in order of arrival. */
export function customers(queue, locks, work, options) {
  const run = (job) => locks.using(`customer:${job.data.customer}`, { label: `job ${job.id}` }, (held) => work(job, held));
  return new Worker(queue, run, options);
}

if (import.meta.filename === process.argv[1]) {
  const connection = new Redis(process.env.REDIS_URL ?? "redis://localhost:6379", { maxRetriesPerRequest: null });
  const queue = new Queue("invoices", { connection }), events = new QueueEvents("invoices", { connection });
  const locks = new Locks(connection);
  const work = (job, held) => console.log("job", job.id, "held with fence", held.fence);
  const worker = customers("invoices", locks, work, { connection, concurrency: 50 });
  const job = await queue.add("invoice", { customer: 7 }, { attempts: 3 });
  await job.waitUntilFinished(events);
  await worker.close(); // lets its jobs end
  await locks.close();
  await Promise.all([queue.close(), events.close()]);
  connection.disconnect();
}
