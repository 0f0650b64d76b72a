// Goal: whatever was accepted with a 202 ends exactly once, however callgate dies or is stopped meanwhile; ordering keys
// are kept. Method: see kHelp. Exit code 1 with --strict if a gate is missed.
import { Agent, createServer, request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Callgate } from "../once/callgate.mjs";
import { quantile, random } from "../once/luck.mjs";

const kHelp = `./dev bench runs [OPTION…]

First, how fast runs are accepted: each is synced to disk before its 202. Then runs in four queues, a third of them with one
of a few ordering keys, while callgate is killed by SIGKILL at random moments and started again at once, and now and then
stopped (SIGSTOP) for longer than a lease. The provider answers after 5 to 80 ms, refuses some (503), and notes when it was
asked by whom. At the end every id that was answered with a 202 is asked for.

  --quick            100 runs, 20 kills, 2 stops
  --runs N           (1000)
  --kills N          (200)
  --stops N          (20)
  --life MS          mean time between a start and the kill after it (250)
  --accept N         runs of the first part (5000)
  --seed N           (8)
  --callgate FILE    the executable
  --strict           exit code 1 if a gate is missed`;

const { values } = parseArgs({
  options: {
    help: { type: "boolean" }, quick: { type: "boolean" }, strict: { type: "boolean" }, runs: { type: "string" }, kills: { type: "string" },
    stops: { type: "string" }, life: { type: "string" }, accept: { type: "string" }, seed: { type: "string" }, callgate: { type: "string" },
  },
});
if (values.help) {
  console.log(kHelp);
  process.exit(0);
}
const number = (name, usual, quick) => Number(values[name] ?? (values.quick ? quick : usual));
const kRuns = number("runs", 1_000, 100);
const kKills = number("kills", 200, 20);
const kStops = number("stops", 20, 2);
const kLife = number("life", 250, 250);
const kAccept = number("accept", 5_000, 1_000);
const kLeaseMs = 2_000;
const executable = values.callgate ?? "build/release/callgate";
const luck = random(number("seed", 8, 8));
process.env.RUNS_BENCH_KEY = "sk-bench";

// ---- The provider

const asked = [];  // { job, at, ended, answered }
const provider = createServer((ask, answer) => {
  let body = "";
  ask.on("data", (text) => (body += text));
  ask.on("end", () => {
    const one = { job: JSON.parse(body).user, at: Date.now(), ended: null, answered: false };
    asked.push(one);
    answer.on("close", () => (one.ended ??= Date.now()));
    const refuse = luck() < 0.05;
    setTimeout(() => {
      if (answer.destroyed) return;
      one.ended = Date.now();
      one.answered = !refuse;
      answer.writeHead(refuse ? 503 : 200, { "content-type": "application/json", "x-request-id": `req_${asked.length}` });
      answer.end(JSON.stringify(refuse ? { error: { message: "busy", type: "server_error", code: null, param: null } }
        : { id: "c", object: "chat.completion", model: "gpt-5", choices: [{ index: 0, message: { role: "assistant", content: one.job }, finish_reason: "stop" }],
            usage: { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 } }));
    }, 5 + luck() * 75);
  });
});
await new Promise((resolve) => provider.listen(0, "127.0.0.1", resolve));
const config = {
  upstreams: { openai: { url: `http://127.0.0.1:${provider.address().port}`, credentials: [{ name: "main", key: { env: "RUNS_BENCH_KEY" } }] } },
  runs: { lease: `${kLeaseMs}ms`, concurrent: 16 },
  retry: { base: "20ms" },
  breaker: { min_calls: 1_000_000, consecutive: 1_000_000 },
  log: { level: "info" },
};

// ---- What is asked of callgate

let agent = new Agent({ keepAlive: true });
function http(host, method, path, body) {
  return new Promise((resolve, reject) => {
    const [address, port] = host.split(":");
    const one = request({ agent, host: address, port, method, path, headers: body ? { "content-type": "application/json" } : {} }, (answer) => {
      let text = "";
      answer.on("data", (piece) => (text += piece));
      answer.on("end", () => resolve({ status: answer.statusCode, text }));
      answer.on("error", reject);
    });
    one.on("error", reject);
    one.setTimeout(20_000, () => one.destroy(new Error("no answer")));
    one.end(body);
  });
}
const order = (callgate, job, more = {}) =>
  http(callgate.data, "POST", "/callgate/v1/runs", JSON.stringify({ path: "/openai/v1/chat/completions", key: job, body: { model: "gpt-5", user: job, messages: [{ role: "user", content: "hi" }] }, ...more }));

const gates = [];
const gate = (name, good, seen) => {
  gates.push(good);
  console.log(`${good ? "  ok  " : "MISSED"}  ${name}: ${seen}`);
};

// ---- How fast runs are accepted

async function acceptance(workers) {
  const callgate = await Callgate.prepare(executable, config, { store: { payloads: "plain" }, settings: ["runs.concurrent=1"] });
  await callgate.start();
  await http(callgate.admin, "POST", "/v1/pause?what=queue&name=accepting");
  agent = new Agent({ keepAlive: true });
  const times = [];
  let next = 0;
  const began = performance.now();
  await Promise.all(Array.from({ length: workers }, async () => {
    while (next < kAccept) {
      const job = `accept-${next++}`;
      const at = performance.now();
      const { status, text } = await order(callgate, job, { not_before: "2099-01-01T00:00:00Z" });
      if (status !== 202) throw new Error(text);
      times.push(performance.now() - at);
    }
  }));
  const seconds = (performance.now() - began) / 1_000;
  await callgate.kill();
  console.log(`accepted by ${workers} at once: ${Math.round(kAccept / seconds)} runs/s, p50 ${quantile(times, 0.5).toFixed(2)} ms, p99 ${quantile(times, 0.99).toFixed(2)} ms`);
}
await acceptance(1);
await acceptance(32);

// ---- What is accepted ends once

const callgate = await Callgate.prepare(executable, config, { store: { payloads: "plain" } });
await callgate.start();
agent = new Agent({ keepAlive: true });
const accepted = new Map();  // job → { id, order, queue }
const jobs = Array.from({ length: kRuns }, (_, index) => ({
  job: `job-${index}`,
  queue: `q${index % 4}`,
  ordering_key: luck() < 0.33 ? `customer-${Math.floor(luck() * 8)}` : undefined,
}));
let submitting = true;
const doneSubmitting = (async () => {
  // One after the other, so that the order of acceptance is known; what has no answer is sent again under its key.
  for (const { job, queue, ordering_key } of jobs) {
    for (;;) {
      try {
        const { status, text } = await order(callgate, job, { queue, ...(ordering_key && { ordering_key }) });
        if (status === 202 || status === 200) {
          accepted.set(job, { id: JSON.parse(text).id, queue, ordering_key });
          break;
        }
        if (status !== 503) throw new Error(`${status} ${text}`);
      } catch (error) {
        if (!error.code && error.message !== "no answer" && error.message !== "socket hang up") throw error;
      }
      await pause(5);
    }
    // Spread over the lives to come.
    await pause((luck() * 2 * kKills * kLife * 0.8) / kRuns);
  }
  submitting = false;
})();

const recovery = [];  // From a start to the first request of a run that was under way when it died.
let stops = 0;
for (let kill = 0; kill < kKills; ++kill) {
  await pause(luck() * 2 * kLife);
  if (stops < kStops && kill * kStops >= stops * kKills) {
    ++stops;
    callgate.program.kill("SIGSTOP");
    await pause(kLeaseMs * 1.25);
    callgate.program.kill("SIGCONT");
    await pause(100);
  }
  const open = new Set(asked.filter((one) => one.ended === null).map((one) => one.job));
  await callgate.kill();
  agent = new Agent({ keepAlive: true });
  const from = asked.length;
  const at = performance.now();
  await callgate.start();
  if (open.size > 0) {
    const until = performance.now() + 3 * kLeaseMs;
    // Those that have died thrice are not asked for again.
    const again = () => asked.slice(from).some((one) => open.has(one.job));
    while (!again() && performance.now() < until && performance.now() - at < 1_000) await pause(5);
    if (again()) recovery.push(performance.now() - at);
  }
  if (process.stderr.isTTY) process.stderr.write(`\r${kill + 1} kills, ${accepted.size} accepted `);
}
await doneSubmitting;
console.log(`\n${accepted.size} runs accepted, ${callgate.kills.length} kills, ${stops} stops of ${kLeaseMs * 1.25} ms; lease ${kLeaseMs} ms`);

const states = {};
const ends = [];
for (const [job, { id }] of accepted) {
  let run;
  for (let tries = 0; tries < 10; ++tries) {
    const { status, text } = await http(callgate.data, "GET", `/callgate/v1/runs/${id}?wait=20s`);
    run = status === 200 ? JSON.parse(text) : { state: `none (${status})` };
    if (!["queued", "running"].includes(run.state)) break;
  }
  const state = run.state === "dead" ? `dead (${run.class})` : run.state;
  states[state] = (states[state] ?? 0) + 1;
  ends.push({ job, id, run });
}
// The feed of events says how often each has ended.
const ended = new Map();
for (let after = 0; ;) {
  const page = JSON.parse((await http(callgate.data, "GET", `/callgate/v1/events?after=${after}&limit=1000`)).text);
  for (const one of page.events) {
    if (one.type === "run.ended") ended.set(one.data.run, (ended.get(one.data.run) ?? 0) + 1);
  }
  if (page.events.length === 0) break;
  after = page.next;
}
const listed = new Set();
for (let after = ""; ;) {
  const page = JSON.parse((await http(callgate.data, "GET", `/callgate/v1/runs?limit=1000${after && `&after=${after}`}`)).text);
  for (const one of page.runs) listed.add(one.id);
  if (!page.next) break;
  after = page.next;
}
await callgate.stop();
provider.close();

console.log(`states: ${Object.entries(states).map(([state, count]) => `${state} ${count}`).join(", ")}`);
const over = ends.filter(({ run }) => ["succeeded", "dead", "failed"].includes(run.state)).length;
gate("every 202 has ended", over === accepted.size, `${over} of ${accepted.size}`);
const once = [...accepted.values()].filter(({ id }) => ended.get(id) === 1).length;
gate("and once", once === accepted.size && ended.size === accepted.size, `${once} of ${accepted.size}, ${ended.size} ends of runs`);
gate("no key has two runs", listed.size === accepted.size, `${listed.size} runs of ${accepted.size} keys`);
const onlyCrash = ends.every(({ run }) => run.state !== "dead" || run.class === "crash");
gate("dead are those that were under way at three ends of the process", onlyCrash, states["dead (crash)"] ?? 0);
const times = new Map();
for (const one of asked) {
  if (one.answered) times.set(one.job, (times.get(one.job) ?? 0) + 1);
}
const extras = [...times.values()].reduce((sum, count) => sum + count - 1, 0);
console.log(`provider: ${asked.length} requests, ${extras} answered more than once (their callgate died before it could write that down)`);
gate("more answers than runs only where it died", extras <= callgate.kills.length * 16, extras);
gate("recovery in under two leases", recovery.every((ms) => ms < 2 * kLeaseMs), recovery.length === 0 ? "nothing was under way" : `p50 ${quantile(recovery, 0.5).toFixed(0)} ms, most ${Math.max(...recovery).toFixed(0)} ms of ${recovery.length}`);

// Of an ordering key none was begun before the ones accepted earlier had their last request, nor two at once.
const byKey = new Map();
for (const { job, queue, ordering_key } of jobs) {
  if (!ordering_key) continue;
  const name = `${queue}/${ordering_key}`;
  if (!byKey.has(name)) byKey.set(name, []);
  byKey.get(name).push(job);
}
let outOfOrder = 0;
let together = 0;
let pairs = 0;
const requestsOf = new Map();
for (const one of asked) {
  if (!requestsOf.has(one.job)) requestsOf.set(one.job, []);
  requestsOf.get(one.job).push(one);
}
for (const chain of byKey.values()) {
  for (let i = 1; i < chain.length; ++i) {
    const before = requestsOf.get(chain[i - 1]) ?? [];
    const after = requestsOf.get(chain[i]) ?? [];
    if (before.length === 0 || after.length === 0) continue;
    ++pairs;
    const last = before.at(-1);
    const first = after[0];
    if (first.at < last.at) ++outOfOrder;
    // (Both clocks are ours, in whole milliseconds.)
    else if (first.at + 1 < (last.ended ?? Infinity)) ++together;
  }
}
gate("ordering keys are kept", outOfOrder === 0, `${outOfOrder} of ${pairs} pairs out of order`);
gate("never two of a key at once", together === 0, `${together} of ${pairs}`);
gate("callgate never ended by itself", callgate.ownEnds.length === 0, callgate.ownEnds.length);
const missed = gates.filter((good) => !good).length;
console.log(missed === 0 ? "all gates met" : `${missed} gates missed`);
process.exit(missed > 0 && values.strict ? 1 : 0);
