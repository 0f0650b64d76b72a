// Goal: what has failed for good is seen by cause at once, and made good by one replay, however callgate dies meanwhile;
// nothing is bought twice but what was in flight when it died. Method: see kHelp. Exit code 1 with --strict if a gate is
// missed.
import { statSync } from "node:fs";
import { Agent, request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Callgate } from "../once/callgate.mjs";
import { quantile, random } from "../once/luck.mjs";
import { kClasses, Provider } from "./provider.mjs";

const kHelp = `./dev bench dead [OPTION…]

Jobs with keys fail for good, of six classes in equal parts: ${kClasses.join(", ")}.
Each leaves a dead letter. (A 429 or a refused key would, too, but callgate holds up or refuses what comes after the first
of those, so there is no storm of them.) Then the time of GET /v1/dead/groups is taken, the provider is repaired, and one
replay of all letters is planned and started. callgate is killed by SIGKILL three times meanwhile and started again at
once. The provider counts the answers that it gave to each key. At the end some jobs are delivered again.

  --quick            3 000 jobs
  --jobs N           (40000)
  --kills N          (3)
  --rate N           of the replay, letters per second (1000, the highest)
  --concurrency N    of the replay (32)
  --groups-ms MS     gate of the groups, p50 of five (100)
  --seed N           (8)
  --callgate FILE    the executable
  --strict           exit code 1 if a gate is missed`;

const { values } = parseArgs({
  options: {
    help: { type: "boolean" }, quick: { type: "boolean" }, strict: { type: "boolean" }, jobs: { type: "string" }, kills: { type: "string" },
    rate: { type: "string" }, concurrency: { type: "string" }, "groups-ms": { type: "string" }, seed: { type: "string" }, callgate: { type: "string" },
  },
});
if (values.help) {
  console.log(kHelp);
  process.exit(0);
}
const number = (name, usual, quick = usual) => Number(values[name] ?? (values.quick ? quick : usual));
const kJobs = number("jobs", 40_000, 3_000);
const kKills = number("kills", 3);
const kRate = number("rate", 1_000);
const kConcurrency = number("concurrency", 32);
const kGroupsMs = number("groups-ms", 100);
const kAgain = Math.min(500, kJobs);
const kModels = ["gpt-5", "gpt-5-mini"];
const kQueues = ["invoices", "summaries"];
const kStuckMs = 60_000;
const executable = values.callgate ?? "build/release/callgate";
const luck = random(number("seed", 8));
process.env.DEAD_BENCH_KEY = "sk-bench";

const provider = await Provider.start(luck);
const place = { dialect: "openai", url: provider.url, credentials: [{ name: "main", key: { env: "DEAD_BENCH_KEY" } }], limits: { concurrent: 512, adaptive: false } };
const config = {
  // Who never answers has an upstream of its own, whose clock runs out soon.
  upstreams: { openai: place, slow: { ...place, timeouts: { first_byte: "1s" } } },
  retry: { base: "1ms", cap: "5ms", bulk: { attempts: 2 }, backfill: { attempts: 2 }, budget: { share: 10, floor: 1_000_000 } },
  memo: { final_failure: "0s" },
  breaker: { min_calls: 1_000_000, consecutive: 1_000_000 },
  dead_letters: { max_bytes: "4GiB" },
  log: { level: "info" },
};

let agent = new Agent({ keepAlive: true });
function http(host, method, path, body, headers = {}) {
  return new Promise((resolve, reject) => {
    const [address, port] = host.split(":");
    const one = request({ agent, host: address, port, method, path, headers: { ...headers, ...(body ? { "content-type": "application/json" } : {}) } }, (answer) => {
      let text = "";
      answer.on("data", (piece) => (text += piece));
      answer.on("end", () => resolve({ status: answer.statusCode, text, headers: answer.headers }));
      answer.on("error", reject);
    });
    one.on("error", reject);
    one.setTimeout(60_000, () => one.destroy(new Error("no answer")));
    one.end(body);
  });
}
async function admin(callgate, method, path) {
  const { status, text } = await http(callgate.admin, method, path);
  if (status !== 200) throw new Error(`${method} ${path}: ${status} ${text}`);
  return JSON.parse(text);
}
const groupsOf = async (callgate, query = "") => (await admin(callgate, "GET", `/v1/dead/groups${query}`)).groups;
const countOf = (groups) => groups.reduce((sum, { count }) => sum + count, 0);
const bytesOf = ({ database }) => ["", "-wal"].reduce((sum, end) => sum + (statSync(database + end, { throwIfNoEntry: false })?.size ?? 0), 0);

const jobs = Array.from({ length: kJobs }, (_, index) => ({
  key: `job-${index}`,
  cls: kClasses[index % kClasses.length],
  model: kModels[Math.floor(luck() * kModels.length)],
  queue: kQueues[Math.floor(luck() * kQueues.length)],
}));
function call(callgate, { key, cls, model, queue }, keyed = true) {
  const prompt = `${cls} ${key} `.padEnd(400, "Summarize this invoice in three short lines. ");
  const body = JSON.stringify({ model, user: key, metadata: { wanted: cls }, messages: [{ role: "user", content: prompt }] });
  return http(callgate.data, "POST", `/${cls === "timeout" ? "slow" : "openai"}/v1/chat/completions`, body, { "callgate-queue": queue, ...(keyed && { "idempotency-key": key }) });
}
/// All of them by so many workers, those that wait for a clock apart; how many of each class had which class.
async function deliver(callgate, some, keyed = true) {
  const seen = {};
  const work = async (line) => {
    for (let one; (one = line.pop()) !== undefined;) {
      const { status, headers } = await call(callgate, one, keyed);
      const what = status < 300 ? "answered" : (headers["callgate-class"] ?? String(status));
      seen[what] = (seen[what] ?? 0) + 1;
    }
  };
  const slow = some.filter(({ cls }) => cls === "timeout");
  const fast = some.filter(({ cls }) => cls !== "timeout");
  await Promise.all([...Array.from({ length: 384 }, () => work(slow)), ...Array.from({ length: 64 }, () => work(fast))]);
  return seen;
}
const counted = (counts) => Object.entries(counts).map(([name, count]) => `${name} ${count}`).join(", ") || "none";

const gates = [];
const gate = (name, good, seen) => {
  gates.push(good);
  console.log(`${good ? "  ok  " : "MISSED"}  ${name}: ${seen}`);
};
const rows = [];
const row = (name, seen) => rows.push(`| ${name} | ${seen} |`);

// ---- What calls alone take on disk: without a key they leave no letter

const store = { payloads: "plain" };
const few = Math.max(300, Math.floor(kJobs / 20));
const plain = await Callgate.prepare(executable, config, { store });
await plain.start();
await deliver(plain, jobs.slice(0, few), false);
await plain.idle(30_000);
await plain.stop();
const callBytes = bytesOf(plain) / few;

// ---- They fail

const callgate = await Callgate.prepare(executable, config, { store });
await callgate.start();
agent = new Agent({ keepAlive: true });
let began = performance.now();
const failed = await deliver(callgate, [...jobs].reverse());
const failSeconds = (performance.now() - began) / 1_000;
for (const until = performance.now() + kStuckMs; performance.now() < until && countOf(await groupsOf(callgate)) < kJobs;) await pause(200);
await callgate.idle(30_000);
const metricsOfFailing = await (await fetch(`http://${callgate.health}/metrics`)).text();
// After an orderly end nothing is in the log beside the file.
await callgate.stop();
const letterBytes = bytesOf(callgate) / kJobs;
await callgate.start();
agent = new Agent({ keepAlive: true });

const groupTimes = [];
let groups = [];
for (let i = 0; i < 5; ++i) {
  const at = performance.now();
  groups = await groupsOf(callgate);
  groupTimes.push(performance.now() - at);
}
const letters = countOf(groups);
row("jobs, and how they failed", `${kJobs}: ${counted(failed)}`);
row("provider, while it failed", `${provider.asked} requests`);
row("seconds until all had failed, per 100 000", `${failSeconds.toFixed(1)}, ${((failSeconds * 100_000) / kJobs).toFixed(0)} (a sixth waits for a clock, twice 1 s)`);
row("groups, p50 and most of 5, ms", `${groups.length}, ${quantile(groupTimes, 0.5).toFixed(1)}, ${Math.max(...groupTimes).toFixed(1)}`);
row("MB on disk per 100 000 letters", `${(letterBytes / 10).toFixed(0)}, of which their calls' and attempts' rows ${(callBytes / 10).toFixed(0)}`);

// ---- One replay, through kills

provider.repair();
const plannedAt = performance.now();
const plan = await admin(callgate, "POST", `/v1/replays?reason=repaired&rate=${kRate}&concurrency=${kConcurrency}`);
const planMs = performance.now() - plannedAt;
began = performance.now();
await admin(callgate, "POST", `/v1/replays/${plan.id}/start?digest=${plan.digest}`);
const startMs = performance.now() - began;

const stuck = () => {
  let [seen, since] = [provider.answered, performance.now()];
  return () => {
    if (provider.answered > seen) [seen, since] = [provider.answered, performance.now()];
    return performance.now() - since > kStuckMs;
  };
};
let inFlight = 0;
let down = 0;  // ms between a kill and the first answer after it.
for (let kill = 1; kill <= kKills; ++kill) {
  const isStuck = stuck();
  const enough = (kJobs * (kill - 0.5 + luck() * 0.5)) / (kKills + 1);
  while (provider.answered < enough && !isStuck()) await pause(2);
  if (provider.answered < enough) break;
  inFlight += provider.open();
  const at = performance.now();
  await callgate.kill();
  agent = new Agent({ keepAlive: true });
  await callgate.start();
  const before = provider.answered;
  while (provider.answered === before && performance.now() - at < kStuckMs) await pause(1);
  down = Math.max(down, performance.now() - at);
  if (process.stderr.isTTY) process.stderr.write(`\r${kill} kills, ${provider.answered} answered `);
}
let end;
for (const isStuck = stuck(); ;) {
  end = await admin(callgate, "GET", `/v1/replays/${plan.id}`);
  if (end.state !== "running" || isStuck()) break;
  await pause(200);
}
const replaySeconds = (performance.now() - began) / 1_000;
const items = end.state === "done" ? [] : (await admin(callgate, "GET", `/v1/replays/${plan.id}/items?state=dead_again&most=5`)).items;
const pendingNow = () => callgate.metric("callgate_dead_letters_pending");
for (const until = performance.now() + 30_000; (await pendingNow()) > 0 && performance.now() < until;) await pause(200);
const pending = await pendingNow();
const left = countOf(await groupsOf(callgate));
const resolved = countOf(await groupsOf(callgate, "?state=resolved"));
const metricsOfReplay = await (await fetch(`http://${callgate.health}/metrics`)).text();

// ---- Their queue delivers some again

const executions = provider.answered;
const again = await Promise.all(jobs.slice(0, kAgain).map(async (job) => (await call(callgate, job)).headers["callgate-idempotency"]));
const bought = provider.answered - executions;
await callgate.stop();
provider.stop();

const times = jobs.map(({ key }) => provider.answers.get(key) ?? 0);
const extras = times.reduce((sum, count) => sum + Math.max(0, count - 1), 0);
row("replay: plan ms, start ms", `${planMs.toFixed(0)}, ${startMs.toFixed(0)}`);
row("replay: its end", `${end.state}${end.why ? ` (${end.why})` : ""}: ${end.resolved} resolved, ${end.dead_again} dead again, ${end.skipped} skipped, ${end.waiting} waiting`);
row("replay: seconds, per 100 000, letters/s", `${replaySeconds.toFixed(1)}, ${((replaySeconds * 100_000) / kJobs).toFixed(0)}, ${(kJobs / replaySeconds).toFixed(0)} (asked for: ${kRate})`);
row("kills, most ms from a kill to the next answer", `${callgate.kills.length}, ${down.toFixed(0)}`);
row("answers: one, none, more", `${times.filter((count) => count === 1).length}, ${times.filter((count) => count === 0).length}, ${times.filter((count) => count > 1).length}`);
row("MB on disk at the end", (bytesOf(callgate) / 1e6).toFixed(0));
console.log(`\n| | |\n|---|---|\n${rows.join("\n")}\n`);
const told = (text, names) => text.split("\n").filter((line) => names.some((name) => line.startsWith(name))).join("\n");
console.log(`Metrics, after the failures (that process) and after the replay (the last one):\n${told(metricsOfFailing, ["callgate_dead_letters_total"])}\n${told(metricsOfReplay, ["callgate_dead_letters_pending", "callgate_replays_total", "callgate_replay_letters_total"])}\n`);
for (const { letter, why } of items) console.log(`died again: ${letter} of ${why}`);

gate("each job has left a letter", letters === kJobs, `${letters} of ${kJobs}`);
gate("of all six classes", kClasses.every((cls) => groups.some((group) => group.class === cls)), [...new Set(groups.map((group) => group.class))].join(", "));
gate(`groups in under ${kGroupsMs} ms`, quantile(groupTimes, 0.5) < kGroupsMs, `p50 ${quantile(groupTimes, 0.5).toFixed(1)} ms`);
gate("all of them are in the plan", plan.count === kJobs, `${plan.count}, left out ${counted(Object.fromEntries(plan.skipped_at_plan.map(({ why, count }) => [why, count])))}`);
gate("one replay makes all of them good", end.state === "done" && left === 0 && resolved === kJobs, `${end.state}, ${resolved} resolved, ${left} open`);
gate("and the metric says so", pending === 0, `callgate_dead_letters_pending ${pending}`);
gate("each job was answered", times.every((count) => count > 0), `${times.filter((count) => count > 0).length} of ${kJobs}`);
gate("more than once only what was in flight at a kill", extras <= callgate.kills.length * kConcurrency, `${extras} extra; the provider had ${inFlight} open at ${callgate.kills.length} kills, of at most ${callgate.kills.length * kConcurrency}`);
gate("what is delivered again is bought by nobody", bought === 0 && again.every((how) => how === "replayed"), `${bought} bought, ${again.filter((how) => how === "replayed").length} of ${kAgain} replayed`);
gate("callgate never ended by itself", callgate.ownEnds.length === 0, callgate.ownEnds.length);
const missed = gates.filter((good) => !good).length;
console.log(missed === 0 ? "all gates met" : `${missed} gates missed`);
process.exit(missed > 0 && values.strict ? 1 : 0);
