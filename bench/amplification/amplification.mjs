// Goal: how many requests a failing provider gets per job, and how many jobs complete, when a queue and an SDK both
// retry: directly, through HAProxy, through callgate. Method: see kHelp. Exit code 1 with --strict if a gate is missed.
import { fork } from "node:child_process";
import { accessSync, constants, mkdirSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { clients } from "./clients.mjs";
import { hasHaproxy } from "./paths.mjs";
import { judge, markdown } from "./report.mjs";

const kHelp = `./dev bench amplification [OPTION…]

A provider fails 30, 60 or 100 % of requests: 503, 429 with Retry-After: 1, or connection resets. Jobs arrive at a steady
rate, each at the same moment on every path: direct, HAProxy with retries, callgate with its defaults. A queue delivers a
job up to four times (1, 2, 4 s apart) to a client with its own retries. After the last arrival the jobs have some patience
left; what is open then has not completed. At 100 % nothing can complete, so the count ends with the arrivals.

  --quick              two minutes: 10 jobs/s only, short
  --outages            wholly down for that share of each 20 s, instead of at random
  --minutes N          only 100 %, over N minutes
  --clients a,b        of: ${Object.keys(clients).join(", ")}
  --kinds a,b          of: 503, 429, reset
  --shares a,b         in percent: 30,60,100
  --rates a,b          jobs per second: 1,10,50
  --paths a,b          of: direct, haproxy, callgate
  --seconds N          of arrivals, per cell
  --patience N         seconds after the last arrival
  --answer MS          time that an answer takes (100); a refusal comes at once
  --seed N             of the random failures
  --load N             jobs per second that arrive at once, all cells together (30 per core, at least the highest rate)
  --callgate FILE      the program
  --set KEY=VALUE      a setting of callgate's instead of its default; may be repeated
  --out DIR            for amplification.md and .json (build/amplification)
  --logs               callgate's log lines and metrics there, too, per cell
  --strict             exit code 1 if a gate is missed
`;

function usage(what) {
  process.stderr.write(`amplification: ${what}; --help says more\n`);
  process.exit(2);
}

const text = { type: "string" };
const flag = { type: "boolean", default: false };
let options;
try {
  options = parseArgs({
    options: {
      quick: flag, outages: flag, strict: flag, logs: flag, help: flag,
      minutes: text, clients: text, kinds: text, shares: text, rates: text, paths: text,
      seconds: text, patience: text, answer: text, seed: text, load: text, callgate: text,
      set: { ...text, multiple: true, default: [] },
      out: { ...text, default: "build/amplification" },
    },
  }).values;
} catch (error) {
  usage(error.message);
}
if (options.help) {
  process.stdout.write(kHelp);
  process.exit(0);
}

function list(name, known, standard = known) {
  const wanted = options[name]?.split(",") ?? standard;
  for (const word of wanted) if (!known.includes(word)) usage(`--${name}: "${word}" is none of ${known.join(", ")}`);
  return wanted;
}
function positive(name, standard) {
  const value = Number(options[name] ?? standard);
  if (!(value > 0)) usage(`--${name}: "${options[name]}" is no number above 0`);
  return value;
}
const numbers = (name, standard) =>
  (options[name]?.split(",") ?? standard).map((word) => (Number(word) > 0 ? Number(word) : usage(`--${name}: "${word}" is no number above 0`)));

const { quick, outages } = options;
const minutes = options.minutes === undefined ? undefined : positive("minutes");
const paths = list("paths", ["direct", "haproxy", "callgate"]);
const about = [];
if (paths.includes("haproxy") && !hasHaproxy()) {
  paths.splice(paths.indexOf("haproxy"), 1);
  about.push("HAProxy is not installed, so its path is left out (Debian: apt-get install haproxy).");
}
if (options.set.length > 0) about.push(`callgate's settings: ${options.set.join(", ")}.`);
if (paths.includes("callgate")) {
  try {
    accessSync(options.callgate ?? usage("--callgate FILE is missing"), constants.X_OK);
  } catch {
    usage(`--callgate: ${options.callgate} is no program`);
  }
}

const cores = os.availableParallelism?.() ?? os.cpus().length;
const seed = positive("seed", 7);
const answerMs = positive("answer", 100);
const load = positive("load", 30 * cores);
// A cell is a process with an SDK in it, a callgate and an HAProxy.
const kCellBytes = 350e6;
const together = Math.max(1, Math.min(32, Math.floor(os.freemem() / kCellBytes)));

/// An outage must come and go while jobs arrive; random failures need no more than enough jobs.
function secondsOf(share, rate) {
  if (options.seconds !== undefined) return positive("seconds");
  if (share >= 1 && minutes) return minutes * 60;
  if (outages) return rate >= 50 ? 15 : 20;
  if (share >= 1) return quick || rate >= 50 ? 15 : 30;
  return quick || rate >= 50 ? 10 : 20;
}

const cells = [];
for (const client of list("clients", Object.keys(clients))) {
  for (const kind of list("kinds", ["503", "429", "reset"])) {
    for (const share of numbers("shares", minutes ? ["100"] : ["30", "60", "100"])) {
      for (const rate of numbers("rates", quick ? ["10"] : ["1", "10", "50"])) {
        const patience = options.patience === undefined ? (quick ? 30 : 120) : positive("patience");
        cells.push({ client, kind, share: share / 100, rate, outages, seconds: secondsOf(share / 100, rate), patience: share >= 100 ? 0.001 : patience });
      }
    }
  }
}

mkdirSync(options.out, { recursive: true });
const started = performance.now();
const running = new Set();
// A cell that loses us ends, and all that it began.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

function play(cell, arrived) {
  return new Promise((resolve, reject) => {
    const name = [cell.client, cell.kind, Math.round(cell.share * 100), cell.rate].join("-");
    const files = options.logs ? { log: join(options.out, `${name}.log`), metrics: join(options.out, `${name}.metrics`) } : {};
    // What SDKs print about failures is no news here.
    const child = fork(new URL("./cell.mjs", import.meta.url), { stdio: ["ignore", "ignore", "ignore", "ipc"] });
    running.add(child);
    child.on("message", ({ event, result, error }) => {
      if (event === "arrived") arrived();
      if (event === "done") resolve(result);
      if (event === "failed") reject(new Error(`${name}: ${error}`));
    });
    child.on("exit", (code) => {
      running.delete(child);
      reject(new Error(`${name}: the cell ended with ${code}`));
    });
    child.send({ ...cell, paths, seed, answerMs, callgate: options.callgate, settings: options.set, ...files });
  });
}

/// What is known so far: a run that is broken off loses only the cells that were under way. Gives the page.
function write() {
  const inOrder = cells.map((cell) => results.get(cell)).filter(Boolean);
  inOrder.sort((a, b) => a.kind.localeCompare(b.kind) || a.share - b.share);
  const took = Math.round((performance.now() - started) / 1000);
  const of = results.size < cells.length ? ` of ${cells.length}` : "";
  const page = markdown(inOrder, paths, [
    `${outages ? "Outages" : "Random failures"}, seed ${seed}, answers after ${answerMs} ms, ${results.size}${of} cells in ${took} s on ${cores} cores. dir: directly to the provider; HAP: HAProxy; cg: callgate.`,
    "done: jobs that completed; open cg: jobs through callgate that still waited at the end; p95: from arrival to answer.",
    ...about,
  ]);
  writeFileSync(join(options.out, "amplification.md"), page);
  writeFileSync(join(options.out, "amplification.json"), JSON.stringify({ outages, seed, answerMs, seconds: took, cores, paths, settings: options.set, results: inOrder }, null, 1));
  return page;
}

// The busiest first. While its jobs arrive a cell weighs its rate, then little: the rest is waiting.
const waiting = [...cells].sort((a, b) => b.rate - a.rate || b.share - a.share);
const results = new Map();
const weigh = ({ rate }) => Math.min(rate, load);
let weight = 0;
let ended = 0;
await new Promise((resolve, reject) => {
  const next = () => {
    if (results.size === cells.length) return resolve();
    for (let i = 0; i < waiting.length && running.size < together; ) {
      const cell = waiting[i];
      if (weight + weigh(cell) > load) {
        ++i;
        continue;
      }
      waiting.splice(i, 1);
      weight += weigh(cell);
      let mine = weigh(cell);
      const lighten = () => {
        weight -= mine;
        mine = 0;
        next();
      };
      play(cell, lighten).then((result) => {
        results.set(cell, result);
        judge(result);
        write();
        if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${++ended} of ${cells.length} cells, ${Math.round((performance.now() - started) / 1000)} s`);
        lighten();
      }, reject);
    }
  };
  next();
});
if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");

const page = write();
process.stdout.write(page);
process.exit(options.strict && [...results.values()].some(({ missed }) => missed.length > 0) ? 1 : 0);
