// Run beside the snippets of docs/queues.md, with stand-ins for what they import.
import assert from "node:assert/strict";
import { Job, Worker } from "bullmq";
import OpenAI, { asked } from "openai";
import { next } from "./bullmq_by_hand.mjs";
import { worker } from "./bullmq_worker.mjs";

// A worker with a processor: BullMQ renews; key and timeouts are ours.
const job = new Job("17", { text: "x" });
assert.equal(await worker.processor(job), "answer");
assert.equal(await worker.processor(job), "answer");
assert.deepEqual(
  asked.map(({ more }) => more.headers["Idempotency-Key"]),
  ["17:summary", "17:summary"],
);
assert.equal(OpenAI.last.options.maxRetries, 0);
assert.ok(worker.options.lockDuration >= 30_000);
assert.ok(!worker.options.skipLockRenewal);
assert.ok(worker.listeners.stalled);

// By hand: the lock is extended while the work goes on, and not afterwards.
const long = new Job("18", {});
Worker.waiting.push(long);
await next(
  async (one) => {
    for (let i = 0; i < 3; ++i) await one.beat();
    return "done";
  },
  "q",
  30,
);
assert.equal(long.state, "completed");
assert.equal(long.value, "done");
assert.ok(long.extended.length >= 3);
assert.ok(long.extended.every((ms) => ms === 30));
assert.ok(Worker.made.at(-1).closed);

// A failed extension costs nothing but a line; a failed work fails the job.
const failing = new Job("19", {});
failing.failing = "away";
Worker.waiting.push(failing);
await next(
  async (one) => {
    await one.beat();
    await one.beat();
    throw new Error("no");
  },
  "q",
  30,
);
assert.equal(failing.state, "failed");
assert.equal(failing.error.message, "no");

// None there.
await next(async () => assert.fail("there is nothing to do"));
// A heartbeat that was left running would keep this process alive; the test waits for its end.
