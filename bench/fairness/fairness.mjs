// Goal: nobody starves. Shares of backlogged tenants, and waits of paced ones beside a whale, of users beside bulk items
// and of all beside a tenant that only fails. Method: see kHelp. Exit code 1 with --strict if a gate is missed.
import { accessSync, constants, mkdirSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { markdown } from "./report.mjs";
import * as scenes from "./scenes.mjs";

const kScenes = ["weights", "whale", "interactive", "failing", "lanes"];
const kHelp = `./dev bench fairness [OPTION…]

callgate with its default bounds before a simulated provider with a fixed number of slots, all of them always wanted:

  weights      ten backlogged tenants, weights 1 to 5: Jain's index of settled tokens per weight
  whale        one with 5 000 jobs, 1 000 of them (queue.per_tenant) outstanding, beside nine paced tenants: their p99 wait
  interactive  interactive calls beside 100 000 bulk items, 10 000 of them (queue.total) outstanding: their p99 wait
  failing      a tenant all of whose calls fail, at once by 400, by 503 on a model of its own and by 503 on the model that
               all use, or there by 500 after all the work: what it moves for the others, beside a run without it
  lanes        all three lanes backlogged: the lowest one's share

Time and tokens vary from job to job, and no answer uses what callgate expects. Waits are told twice: as callgate says
(Callgate-Queue-Ms), and as the caller sees it: its time less the provider's, the way through both programs included.

  --quick              short, and a tenth of the bulk items
  --scenes a,b         of: ${kScenes.join(", ")}
  --seconds N          that are measured, of each scene (60)
  --warm-up N          seconds before that (8)
  --slots N            the upstream's limits.concurrent (20)
  --service MS         mean time of an answer (100)
  --seed N
  --callgate FILE      the program
  --set KEY=VALUE      a setting of callgate's instead of its default; may be repeated
  --out DIR            for fairness.md and .json (build/fairness)
  --logs               callgate's log lines there, too, per scene
  --strict             exit code 1 if a gate is missed
`;

function usage(what) {
  process.stderr.write(`fairness: ${what}; --help says more\n`);
  process.exit(2);
}

const text = { type: "string" };
const flag = { type: "boolean", default: false };
let options;
try {
  options = parseArgs({
    options: {
      quick: flag, strict: flag, logs: flag, help: flag,
      scenes: text, seconds: text, "warm-up": text, slots: text, service: text, seed: text, callgate: text,
      set: { ...text, multiple: true, default: [] },
      out: { ...text, default: "build/fairness" },
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
const { quick } = options;
const wanted = options.scenes?.split(",") ?? kScenes;
for (const word of wanted) if (!kScenes.includes(word)) usage(`--scenes: "${word}" is none of ${kScenes.join(", ")}`);
try {
  accessSync(options.callgate ?? usage("--callgate FILE is missing"), constants.X_OK);
} catch {
  usage(`--callgate: ${options.callgate} is no program`);
}

const slots = positive("slots", 20);
const run = {
  callgate: options.callgate,
  settings: options.set,
  logs: options.logs && options.out,
  seed: positive("seed", 7),
  seconds: positive("seconds", quick ? 12 : 60),
  warmUp: positive("warm-up", quick ? 4 : 8),
  slots,
  serviceMs: positive("service", 100),
  // Bounds count those that wait; the others are in flight.
  whale: 1_000 + slots,
  bulk: 1_000 + Math.floor(slots / 10),
  bulkTenants: quick ? 1 : 10,
};

mkdirSync(options.out, { recursive: true });
const cores = os.availableParallelism?.() ?? os.cpus().length;
const results = [];
const started = performance.now();
function write() {
  const about = [`${slots} slots, answers after ${run.serviceMs} ms in the mean (half to one and a half), ${run.seconds} s each after ${run.warmUp} s, seed ${run.seed}, ${cores} cores.`];
  if (run.settings.length > 0) about.push(`callgate's settings: ${run.settings.join(", ")}.`);
  const page = markdown(results, about);
  writeFileSync(join(options.out, "fairness.md"), page);
  const { callgate: program, logs, ...settings } = run;
  writeFileSync(join(options.out, "fairness.json"), JSON.stringify({ ...settings, cores, took: Math.round((performance.now() - started) / 1_000), results }, null, 1));
  return page;
}
for (const name of wanted) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${name} (${results.length + 1} of ${wanted.length})`);
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  const { figures, gates } = await scenes[name](run);
  results.push({ scene: name, gates, lateMs: Number((delay.percentile(99) / 1e6 - 5).toFixed(1)), figures });
  write();
}
if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
process.stdout.write(write());
process.exit(options.strict && results.some(({ gates }) => gates.some(({ pass }) => !pass)) ? 1 : 0);
