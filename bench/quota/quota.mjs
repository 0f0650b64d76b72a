// Goal: a provider's quota is used and hardly exceeded. Method: see kHelp. Exit code 1 with --strict if a gate is missed.
import { accessSync, constants, mkdirSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { parseArgs } from "node:util";
import * as gate from "../fairness/callgate.mjs";
import { judge, markdown } from "./report.mjs";

const kRpm = 10_000;
const kTpm = 2_000_000;
const kCounts = ["bucket", "second", "minute"];
const kHeaders = ["told", "silent", "stale"];
const kLoads = { short: { input: 100, output: 20 }, long: { input: 250, output: 150 } };
const kHelp = `./dev bench quota [OPTION…]

More work than a simulated provider's quota of 10 000 requests and 2 M tokens a minute takes, through callgate with its
defaults (no limit is configured but the upstream's standard concurrency). What is too much gets 429 with Retry-After. How
much of the quota is used, and how many of its answers are 429? The first 30 s, and those after the quota was halved without
notice, are told apart.

  --quick              a quarter of the quota, all cells at the same time, shorter
  --scale X            of the quota (1); cells run together as far as all of their quotas together are one
  --together N         so many cells at the same time instead
  --counts a,b         how it counts (bucket):
                         bucket  a bucket that holds a minute's worth, full at the beginning
                         second  a bucket that holds a second's worth
                         minute  windows of a minute; whole ones are measured and told apart
  --headers a,b        what it tells (told,silent):
                         told    x-ratelimit-* (limit, remaining, reset), after the halving with the new limit
                         silent  nothing but Retry-After
                         stale   x-ratelimit-* with the old limit for ever
  --loads a,b          short: requests are what is scarce; long: tokens are (short,long)
  --seconds N          of steady load, before the halving and after it, beside the 30 s told apart (60)
  --answer MS          mean time of an answer (600)
  --outstanding N      calls, at any time (600)
  --seed N
  --callgate FILE      the program
  --set KEY=VALUE      a setting of callgate's instead of its default; may be repeated
  --out DIR            for quota.md and .json (build/quota)
  --logs               callgate's log lines there, too, per cell
  --strict             exit code 1 if a gate is missed
`;

function usage(what) {
  process.stderr.write(`quota: ${what}; --help says more\n`);
  process.exit(2);
}

const text = { type: "string" };
const flag = { type: "boolean", default: false };
let options;
try {
  options = parseArgs({
    options: {
      quick: flag, strict: flag, logs: flag, help: flag,
      scale: text, together: text, counts: text, headers: text, loads: text, seconds: text, answer: text, outstanding: text, seed: text, callgate: text,
      set: { ...text, multiple: true, default: [] },
      out: { ...text, default: "build/quota" },
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
function list(name, known, standard) {
  const wanted = options[name]?.split(",") ?? standard;
  for (const word of wanted) if (!known.includes(word)) usage(`--${name}: "${word}" is none of ${known.join(", ")}`);
  return wanted;
}
try {
  accessSync(options.callgate ?? usage("--callgate FILE is missing"), constants.X_OK);
} catch {
  usage(`--callgate: ${options.callgate} is no program`);
}

const { quick } = options;
const scale = positive("scale", quick ? 0.25 : 1);
const together = positive("together", Math.max(1, Math.floor(1 / scale)));
const seconds = positive("seconds", quick ? 30 : 60);
const kApart = 30;
const kWindow = 60;
const answerMs = positive("answer", 600);
const outstanding = positive("outstanding", 600);
const seed = positive("seed", 7);

const cells = [];
for (const load of list("loads", Object.keys(kLoads), Object.keys(kLoads))) {
  for (const counts of list("counts", kCounts, ["bucket"])) {
    for (const headers of list("headers", kHeaders, ["told", "silent"])) cells.push({ load, counts, headers });
  }
}

mkdirSync(options.out, { recursive: true });
const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time * 1_000));

async function play(cell) {
  const name = `${cell.load}-${cell.counts}-${cell.headers}`;
  const quota = { rpm: kRpm * scale, tpm: kTpm * scale };
  const provider = await gate.provider(new URL("./provider.mjs", import.meta.url), {
    ...quota, counts: cell.counts, headers: cell.headers !== "silent", stale: cell.headers === "stale",
  });
  const config = { upstreams: { openai: { url: `http://127.0.0.1:${provider.port}` } } };
  const callgate = await gate.start(options.callgate, config, { settings: options.set, log: options.logs && join(options.out, `${name}.log`) });
  const callers = new gate.Callers(callgate.data);
  const luck = gate.random(seed);
  const like = kLoads[cell.load];
  const make = () => {
    const input = Math.round(like.input * (0.5 + luck()));
    const output = Math.max(1, Math.round(Math.min(8, -Math.log(1 - luck())) * like.output));
    const ms = Math.round(answerMs * (0.5 + luck()));
    return { tenant: "default", bytes: Math.round(input * (3 + 2 * luck())), output: 8 * like.output, job: `${ms} ${input} ${output}` };
  };
  const ends = {};
  callers.backlog(outstanding, make, ({ status }) => (ends[status] = (ends[status] ?? 0) + 1));
  const believed = [];
  const look = async (at) => {
    const { upstreams } = await callgate.upstreams();
    believed.push({ at, ...upstreams.find(({ name }) => name === "openai") });
  };
  // Windows are told apart and measured as whole ones.
  const windows = cell.counts === "minute";
  const apart = windows ? kWindow : kApart;
  const steady = windows ? kWindow * Math.ceil(seconds / kWindow) : seconds;
  await sleep(apart);
  await look("after the start");
  await sleep(steady);
  await look("before the halving");
  provider.tell("halve");
  await sleep(apart);
  await look("after the halving");
  await sleep(steady);
  await look("at the end");
  const all = await provider.ask("seconds");
  callers.stop();
  const events = { ...callgate.events };
  await callgate.stop();
  await provider.stop();

  const halved = windows ? apart + steady : all.findIndex(({ share }) => share < 1);
  const part = (from, to) => {
    const sum = { accepted: 0, tokens: 0, refused: 0, quota: 0 };
    // The second in which it was halved belongs to both.
    for (const one of all.slice(from, to)) {
      sum.accepted += one.accepted;
      sum.tokens += one.tokens;
      sum.refused += one.refused;
      sum.quota += one.share / 60;
    }
    const used = { requests: sum.accepted / (quota.rpm * sum.quota), tokens: sum.tokens / (quota.tpm * sum.quota) };
    return { ...sum, used: Math.max(used.requests, used.tokens), refusedShare: sum.refused / Math.max(1, sum.accepted + sum.refused) };
  };
  const phases = {
    start: part(0, apart),
    steady: part(apart, halved),
    halving: part(halved, halved + apart),
    after: part(halved + apart, halved + apart + steady),
  };
  return judge({ ...cell, phases, ends, events, believed, seconds: all });
}

const cores = os.availableParallelism?.() ?? os.cpus().length;
const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();
const results = [];
function write() {
  const about = [
    `${kRpm * scale} requests and ${kTpm * scale} tokens a minute, answers after ${answerMs} ms in the mean, ${outstanding} calls outstanding, ${kApart} s of start, ${seconds} s, halving and ${kApart} s, ${seconds} s; seed ${seed}, ${Math.min(together, cells.length)} cells at a time on ${cores} cores; the callers' loop was ${(delay.percentile(99) / 1e6 - 5).toFixed(1)} ms late (p99).`,
  ];
  if (options.set.length > 0) about.push(`callgate's settings: ${options.set.join(", ")}.`);
  const order = cells.map((cell) => results.find((one) => one.load === cell.load && one.counts === cell.counts && one.headers === cell.headers)).filter(Boolean);
  const page = markdown(order, about);
  writeFileSync(join(options.out, "quota.md"), page);
  writeFileSync(join(options.out, "quota.json"), JSON.stringify({ scale, answerMs, outstanding, seed, cores, settings: options.set, results: order }));
  return page;
}
const waiting = [...cells];
async function worker() {
  for (let cell = waiting.shift(); cell; cell = waiting.shift()) {
    results.push(await play(cell));
    write();
    if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${results.length} of ${cells.length} cells`);
  }
}
await Promise.all(Array.from({ length: Math.min(together, cells.length) }, worker));
if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
process.stdout.write(write());
process.exit(options.strict && results.some(({ missed }) => missed.length > 0) ? 1 : 0);
