// Goal: a job is paid once, however it is delivered and whenever callgate is killed, and every token and coin is in the
// books. Method: see kHelp. Exit code 1 with --strict if a gate is missed.
import { randomBytes } from "node:crypto";
import { accessSync, constants, copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { ask, hasSqlite } from "./books.mjs";
import { Callgate } from "./callgate.mjs";
import { measure } from "./cost.mjs";
import { judge } from "./judge.mjs";
import { quantile, random } from "./luck.mjs";
import { Queue } from "./queue.mjs";
import { costPage, oncePage } from "./report.mjs";

const kModes = {
  plain: () => ({ payloads: "plain" }),
  disk: () => ({ payloads: "plain", commit: "disk" }),
  sealed: () => ({ payload_key: { file: Callgate.secret(randomBytes(32).toString("hex")) } }),
};
const kModels = ["gpt-5-mini", "gpt-5-nano", "gpt-4.1-mini", "gpt-4o-mini"];
const kHelp = `./dev bench once [OPTION…]

Jobs with a key each (Idempotency-Key: job-17:ask) come from a queue that delivers at least once to two workers on one
callgate: again after a failure, beside a worker that takes longer than the visibility timeout, and after success when the
acknowledgement is lost. The workers use the OpenAI SDK, with retries and a timeout that many calls pass; half of the jobs
are streams. callgate is killed with SIGKILL at random moments and started again at once, with the same ports and the same
store. The provider answers after 20 to 600 ms, refuses some (503, 429), resets some and breaks off some half-way; it counts
each execution, with a request id and a nonce of its own. Then the callers' answers, the ledger, the provider's count and the
kills are held against each other. The ledger is read with the program sqlite3 (Debian: apt-get install sqlite3), or by a
Node.js of 22.5 or later itself.

  --quick              200 jobs and 20 kills in each mode
  --modes a,b          of: ${Object.keys(kModes).join(", ")} (all). plain: answers in the clear; disk: each commit synced, too;
                       sealed: answers encrypted
  --jobs N             in each mode (2000)
  --kills N            in each mode (200)
  --life MS            mean time between a start and the kill after it (500)
  --seed N             of all chance but the provider's ports and the moment's load
  --callgate FILE      the program
  --set KEY=VALUE      a setting of callgate's instead of its default; may be repeated
  --out DIR            for once.md and once.json (build/once), with --cost: cost.md and cost.json
  --logs               callgate's log lines and the database of each mode there, too
  --strict             exit code 1 if a gate is missed

  --cost               instead: what a key and a store cost. The same paced calls with and without a key, on one connection
                       and on 16, interleaved, with store.commit: process and disk; and CPU per call with a file over
                       store.path: ":memory:"
  --seconds N          of each of its cells (8; 2 with --quick)
`;

function usage(what, code = 2) {
  process.stderr.write(`once: ${what}; --help says more\n`);
  process.exit(code);
}

const text = { type: "string" };
const flag = { type: "boolean", default: false };
let options;
try {
  options = parseArgs({
    options: {
      quick: flag, strict: flag, logs: flag, help: flag, cost: flag,
      modes: text, jobs: text, kills: text, life: text, seed: text, seconds: text, callgate: text,
      set: { ...text, multiple: true, default: [] },
      out: { ...text, default: "build/once" },
    },
  }).values;
} catch (error) {
  usage(error.message);
}
if (options.help) {
  process.stdout.write(kHelp);
  process.exit(0);
}
function positive(name, standard) {
  const value = Number(options[name] ?? standard);
  if (!(value > 0)) usage(`--${name}: "${options[name]}" is no number above 0`);
  return value;
}
try {
  accessSync(options.callgate ?? usage("--callgate FILE is missing"), constants.X_OK);
} catch {
  usage(`--callgate: ${options.callgate} is no program`);
}
if (!options.cost && !hasSqlite()) usage("the program sqlite3 is missing, by which the ledger is read (Debian: apt-get install sqlite3)", 3);
const modes = options.modes?.split(",") ?? Object.keys(kModes);
for (const mode of modes) if (!kModes[mode]) usage(`--modes: "${mode}" is none of ${Object.keys(kModes).join(", ")}`);

const { quick } = options;
const run = {
  jobs: positive("jobs", quick ? 200 : 2_000),
  kills: positive("kills", quick ? 20 : 200),
  lifeMs: positive("life", 500),
  seed: positive("seed", 7),
  leaseMs: 60_000,
};
const cores = os.availableParallelism?.() ?? os.cpus().length;
mkdirSync(options.out, { recursive: true });
const say = (what) => process.stderr.isTTY && process.stderr.write(`\r\x1b[K${what}`);

async function provider(data) {
  const gauge = new SharedArrayBuffer(4);
  const worker = new Worker(new URL("./provider.mjs", import.meta.url), { workerData: { ...data, gauge } });
  const hear = () => new Promise((resolve, reject) => worker.once("message", ({ value }) => resolve(value)).once("error", reject));
  const port = await hear();
  return {
    port,
    underWay: () => Atomics.load(new Int32Array(gauge), 0),
    all() {
      const told = hear();
      worker.postMessage({ word: "all" });
      return told;
    },
    stop: () => worker.terminate(),
  };
}

/// Kills are spread over the work: job by job the queue is filled as they go.
async function killAll(callgate, queue, luck, underWay) {
  let inFlight = 0;
  for (let kill = 1; kill <= run.kills; ++kill) {
    // Now and then while it starts, often soon after, when all come back at once, else at any time.
    const roll = luck();
    const life = roll < 0.05 ? 0 : roll < 0.3 ? luck() * 80 : luck() * 2.6 * run.lifeMs;
    const listening = callgate.start();
    if (roll < 0.05) {
      await Promise.race([listening, pause(luck() * 40)]);
    } else {
      await listening;
      await pause(life);
    }
    const open = underWay();
    await callgate.kill();
    // What had no place to go to at the first look, and was on its way at the second.
    inFlight += Math.max(open, underWay());
    queue.release(Math.ceil((kill * run.jobs) / run.kills));
    say(`${kill} of ${run.kills} kills, ${queue.jobs.length - queue.open} of ${run.jobs} jobs`);
  }
  return inFlight;
}

async function play(mode) {
  const began = performance.now();
  const luck = random(run.seed);
  const data = { seed: run.seed, least: 20, most: 600, refuse: 0.05, limit: 0.01, reset: 0.02, cut: 0.02 };
  const its = await provider(data);
  const config = {
    upstreams: { openai: { url: `http://127.0.0.1:${its.port}` } },
    tenants: { bench: { budget: { daily_usd: "1000000.00", monthly_usd: "10000000.00" } } },
    idempotency: { lease: `${run.leaseMs / 1_000}s` },
  };
  const files = options.logs ? { log: join(options.out, `${mode}.log`) } : {};
  const callgate = await Callgate.prepare(options.callgate, config, { store: kModes[mode](), settings: options.set, ...files });
  const jobs = Array.from({ length: run.jobs }, (_, i) => ({
    key: `job-${i}:ask`, run: `job-${i}`, model: kModels[i % kModels.length], stream: luck() < 0.5, answers: [],
    outstanding: 0, waiting: 0, deliveries: 0, acked: false, closed: false,
  }));
  const queue = new Queue({ jobs, data: callgate.data, workers: 2, luck, ackLost: 0.25, timeoutMs: [200, 900], retries: 2, leave: 0.05, seed: run.seed });
  await queue.begin();
  queue.release(Math.ceil(run.jobs / run.kills));
  const inFlightAtKills = await killAll(callgate, queue, luck, its.underWay);
  await callgate.start();
  queue.release(run.jobs);
  const kPatienceMs = 180_000;
  await Promise.race([queue.over, pause(kPatienceMs, undefined, { ref: false })]);
  const seconds = (performance.now() - began) / 1_000;
  // Streams that were left half-way go on for a while without their caller.
  await callgate.idle(30_000);

  const before = (await its.all()).executions.length;
  const counts = structuredClone(queue.counts);
  const took = jobs.filter((job) => job.took !== undefined).map((job) => job.took);
  queue.again();
  await Promise.race([queue.over, pause(kPatienceMs, undefined, { ref: false })]);
  await callgate.idle(30_000);
  const { executions, refused } = await its.all();
  const again = { replayed: (queue.counts.idempotency.replayed ?? 0) - (counts.idempotency.replayed ?? 0), bought: executions.length - before };
  const stuck = ask(callgate.database, "SELECT count(*) AS count FROM idempotency WHERE state = 0")[0].count;
  await callgate.stop();
  const restarted = Date.now();
  await callgate.start();
  const budgets = await callgate.budgets();
  await callgate.stop();
  await queue.stop();
  await its.stop();
  if (options.logs) copyFileSync(callgate.database, join(options.out, `${mode}.db`));

  const bugs = Object.entries(queue.counts.errors).filter(([error]) => /garbled|^4(?!99|29)|^500|TypeError|callgate_key_reused/.test(error)).map(([error, count]) => `${count} × ${error}`);
  const { gates, figures } = judge({
    ...run, file: callgate.database, jobs, executions, refused, kills: callgate.kills, inFlightAtKills, budgets, restarted, stuck, again, ownEnds: callgate.ownEnds, bugs,
  });
  Object.assign(figures, {
    seconds: Math.round(seconds),
    startMs: { p50: Math.round(quantile(callgate.startMs, 0.5)), p99: Math.round(quantile(callgate.startMs, 0.99)) },
    jobMs: { p50: Math.round(quantile(took, 0.5)), p99: Math.round(quantile(took, 0.99)), max: Math.round(quantile(took, 1)) },
    lateCommits: callgate.lateCommits,
    events: callgate.events,
    queue: counts,
  });
  return { mode, gates, figures };
}

if (options.cost) {
  const seconds = positive("seconds", quick ? 2 : 8);
  const result = await measure({ executable: options.callgate, settings: options.set, seconds, seed: run.seed, say });
  say("");
  const page = costPage(result, [`Paced calls, ${seconds} s each cell, on ${cores} cores.`]);
  writeFileSync(join(options.out, "cost.md"), page);
  writeFileSync(join(options.out, "cost.json"), JSON.stringify({ seconds, cores, settings: options.set, ...result }, null, 1));
  process.stdout.write(page);
  process.exit(options.strict && result.gates.some(({ pass }) => !pass) ? 1 : 0);
}

const results = [];
let page = "";
for (const mode of modes) {
  results.push(await play(mode));
  say("");
  page = oncePage(results, [`${run.jobs} jobs and ${run.kills} kills in each mode, two workers, seed ${run.seed}, ${cores} cores.`, ...(options.set.length > 0 ? [`callgate's settings: ${options.set.join(", ")}.`] : [])]);
  writeFileSync(join(options.out, "once.md"), page);
  writeFileSync(join(options.out, "once.json"), JSON.stringify({ ...run, cores, settings: options.set, results }, null, 1));
}
process.stdout.write(page);
process.exit(options.strict && results.some(({ gates }) => gates.some(({ pass }) => !pass)) ? 1 : 0);
