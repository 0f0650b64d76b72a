// A queue that delivers at least once: again when a worker fails, again when it takes longer than the visibility timeout
// (the first one may be at work still), and again after success when the acknowledgement is lost.
import { Worker } from "node:worker_threads";

const kAtOnce = 24;  // Deliveries per worker.
const kAgainAfterMs = [50, 500];
const kLostAckAfterMs = [20, 3_000];
const kVisibilityMs = [400, 3_000];
const kTwinsMost = 6;  // Deliveries of one job before failures alone bring it again.

export class Queue {
  /// timeoutMs: [least, most] of the SDK's; ackLost: share of acknowledgements.
  constructor({ jobs, data, workers, luck, ackLost, timeoutMs, retries, leave, seed }) {
    Object.assign(this, { jobs, luck, ackLost, timeoutMs });
    this.ready = [];
    this.released = 0;
    this.open = jobs.length;
    this.next = 0;
    this.under = new Map();  // Delivery → its job.
    this.counts = { deliveries: 0, answers: 0, failures: 0, ackLost: 0, twins: 0, errors: {}, idempotency: {} };
    this.workers = Array.from({ length: workers }, (_, i) => {
      const worker = new Worker(new URL("./clients.mjs", import.meta.url), { workerData: { data, retries, leave, seed: seed + i } });
      const one = { worker, busy: 0 };
      one.ready = new Promise((resolve, reject) => {
        worker.on("message", (said) => (said.ready ? resolve() : this.#heard(one, said)));
        worker.on("error", reject);
      });
      return one;
    });
    this.over = new Promise((resolve) => (this.done = resolve));
  }
  async begin() {
    await Promise.all(this.workers.map(({ ready }) => ready));
  }
  /// So many of the jobs are in the queue from now on.
  release(count) {
    for (; this.released < Math.min(count, this.jobs.length); ++this.released) this.#put(this.jobs[this.released]);
    this.#hand();
  }
  /// Each job once more, whatever became of it.
  again() {
    this.ackLost = 0;
    this.open = this.jobs.length;
    this.over = new Promise((resolve) => (this.done = resolve));
    for (const job of this.jobs) {
      job.acked = false;
      job.closed = false;
      this.#put(job);
    }
    this.#hand();
  }
  async stop() {
    await Promise.all(this.workers.map(({ worker }) => worker.terminate()));
  }

  #between([least, most]) {
    return least + this.luck() * (most - least);
  }
  #put(job) {
    ++job.waiting;
    this.ready.push(job);
  }
  #later(job, span) {
    ++job.waiting;
    setTimeout(() => {
      this.ready.push(job);
      this.#hand();
    }, this.#between(span));
  }
  #hand() {
    while (this.ready.length > 0) {
      const free = this.workers.filter(({ busy }) => busy < kAtOnce);
      if (free.length === 0) return;
      const one = free[Math.floor(this.luck() * free.length)];
      const job = this.ready.shift();
      --job.waiting;
      const delivery = ++this.next;
      ++one.busy;
      ++job.outstanding;
      ++job.deliveries;
      ++this.counts.deliveries;
      job.since ??= performance.now();
      const sight = setTimeout(() => {
        if (!this.under.has(delivery) || job.acked || job.deliveries >= kTwinsMost) return;
        ++this.counts.twins;
        this.#put(job);
        this.#hand();
      }, this.#between(kVisibilityMs));
      this.under.set(delivery, { job, sight });
      one.worker.postMessage({ delivery, job: { key: job.key, run: job.run, model: job.model, stream: job.stream }, timeout: Math.round(this.#between(this.timeoutMs)) });
    }
  }
  #heard(one, { delivery, nonce, execution, idempotency, error }) {
    const { job, sight } = this.under.get(delivery);
    clearTimeout(sight);
    this.under.delete(delivery);
    --one.busy;
    --job.outstanding;
    if (error) {
      ++this.counts.failures;
      this.counts.errors[error] = (this.counts.errors[error] ?? 0) + 1;
      if (!job.acked && job.waiting === 0) this.#later(job, kAgainAfterMs);
    } else {
      ++this.counts.answers;
      this.counts.idempotency[idempotency] = (this.counts.idempotency[idempotency] ?? 0) + 1;
      job.answers.push({ nonce, execution });
      job.took ??= performance.now() - job.since;
      if (this.luck() < this.ackLost) {
        ++this.counts.ackLost;
        this.#later(job, kLostAckAfterMs);
      } else {
        job.acked = true;
      }
    }
    if (job.acked && !job.closed && job.outstanding === 0 && job.waiting === 0) {
      job.closed = true;
      if (--this.open === 0) this.done();
    }
    this.#hand();
  }
}
