// One cell, in a process of its own: one client, one way of failing, one rate; every job goes down all paths at the same
// moment. Told by a message: { client, kind, share, rate, outages, seconds, patience, answerMs, seed, paths, callgate, settings, log, metrics }
// Answers with { event: "arrived" } after the last arrival and { event: "done", result } at the end.
import { writeFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { clients } from "./clients.mjs";
import * as ways from "./paths.mjs";

// As BullMQ's { attempts: 4, backoff: { type: "exponential", delay: 1000 } }.
const kRedeliverAfterMs = [1_000, 2_000, 4_000];

// SDKs differ in what they leave unhandled when a connection is reset; it is the job's failure, which is counted.
process.on("unhandledRejection", () => {});
process.on("disconnect", () => process.exit(1));
process.on("SIGTERM", () => process.exit(1));
process.on("SIGINT", () => process.exit(1));
globalThis.AI_SDK_LOG_WARNINGS = false;
for (const name of Object.keys(process.env)) {
  if (/^(OPENAI|CO|COHERE|LANGCHAIN|LANGSMITH|AI_SDK)_/.test(name)) delete process.env[name];
}

async function open(cell) {
  const provider = new Worker(new URL("./provider.mjs", import.meta.url), { workerData: { ...cell } });
  const hear = (what) =>
    new Promise((resolve, reject) => {
      provider.once("message", (said) => resolve(said[what]));
      provider.once("error", reject);
    });
  const ports = await hear("ports");
  return {
    ports,
    begin: () => provider.postMessage("begin"),
    counts() {
      provider.postMessage("counts");
      return hear("counts");
    },
  };
}

/// One job's life in the queue. It counts as completed once, when the worker has its answer.
async function work(path, job) {
  const { ask, headers, tally } = path;
  const prompt = `Say hello to ${job}`;
  const began = performance.now();
  for (const wait of [...kRedeliverAfterMs, undefined]) {
    ++tally.deliveries;
    try {
      await ask(prompt, headers?.(job));
      ++tally.completed;
      tally.times.push((performance.now() - began) / 1000);
      return;
    } catch (error) {
      const said = String(error.status ?? error.statusCode ?? error.cause?.code ?? error.code ?? error.name);
      tally.errors[said] = (tally.errors[said] ?? 0) + 1;
    }
    if (wait) await pause(wait);
  }
  ++tally.failed;
}

const quantile = (sorted, q) => (sorted.length > 0 ? sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] : null);

async function play(cell) {
  const client = clients[cell.client];
  const provider = await open(cell);
  const paths = [];
  for (const name of cell.paths) {
    const way = await ways[name](provider.ports[name], client, { executable: cell.callgate, settings: cell.settings, log: cell.log });
    const tally = { deliveries: 0, completed: 0, failed: 0, times: [], errors: {} };
    paths.push({ name, ...way, tally, ask: await client.connect(way.base(client)) });
  }

  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  provider.begin();
  const began = performance.now();
  const jobs = Math.round(cell.rate * cell.seconds);
  const lives = [];
  for (let i = 0; i < jobs; ++i) {
    const due = began + (i * 1000) / cell.rate - performance.now();
    if (due > 0) await pause(due);
    for (const path of paths) lives.push(work(path, `job-${i}`));
  }
  const rest = began + cell.seconds * 1000 - performance.now();
  if (rest > 0) await pause(rest);
  process.send({ event: "arrived" });
  await Promise.race([Promise.all(lives), pause(cell.patience * 1000)]);

  const counts = await provider.counts();
  const result = { client: cell.client, kind: cell.kind, share: cell.share, rate: cell.rate, outages: cell.outages };
  Object.assign(result, { jobs, seconds: (performance.now() - began) / 1000, lateMs: delay.percentile(99) / 1e6, paths: {} });
  for (const { name, tally, events, metrics } of paths) {
    const { deliveries, completed, failed, errors } = tally;
    const times = tally.times.sort((a, b) => a - b);
    const { requests, failed: failures } = counts[name];
    result.paths[name] = { completed, failed, open: jobs - completed - failed, deliveries, requests, failures, p50: quantile(times, 0.5), p95: quantile(times, 0.95), errors };
    if (events) result.paths[name].events = { ...events };
    if (metrics && cell.metrics) writeFileSync(cell.metrics, await metrics().catch((error) => `${error}\n`));
  }
  return result;
}

process.once("message", async (cell) => {
  try {
    const result = await play(cell);
    process.send({ event: "done", result }, () => process.exit(0));
  } catch (error) {
    process.send({ event: "failed", error: `${error.stack} ${error.cause ?? ""}` }, () => process.exit(1));
  }
});
