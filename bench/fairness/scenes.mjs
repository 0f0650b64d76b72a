// The situations that are measured. Each takes the settings of a run and resolves to { figures, gates }, where a gate is
// { what, value, bound, pass, unit }. callgate is new in each, with its default bounds.
import * as gate from "./callgate.mjs";

const kTenants = 10;

const names = (count) => Array.from({ length: count }, (_, i) => `tenant-${i}`);
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
const round = (value, digits = 1) => (value === null ? null : Number(value.toFixed(digits)));

/// What jobs are like: time and tokens vary by themselves, and differently per tenant.
function jobs(luck, { serviceMs }) {
  return (tenant, { lane, input = 400, output = 200, status = 200 } = {}) => {
    const ms = Math.round(serviceMs * (0.5 + luck()));
    const read = Math.round(input * (0.5 + luck()));
    const written = Math.max(1, Math.round(Math.min(8, -Math.log(1 - luck())) * output));
    // What callgate expects is a guess: bytes per token vary from job to job, and the asked maximum is seldom reached.
    const bytes = Math.round(read * (2 + 4 * luck()));
    return { tenant, lane, bytes, output: 8 * output, serviceMs: ms, job: `${ms} ${read} ${written} ${status}` };
  };
}

class Stage {
  static async open(run, name, tenants) {
    const provider = await gate.provider(new URL("./provider.mjs", import.meta.url), {});
    const config = {
      upstreams: { openai: { url: `http://127.0.0.1:${provider.port}`, limits: { concurrent: run.slots } } },
      tenants: Object.fromEntries(tenants.map(({ name: who, ...settings }) => [who, settings])),
    };
    const callgate = await gate.start(run.callgate, config, { settings: run.settings, log: run.logs && `${run.logs}/${name}.log` });
    return Object.assign(new Stage(), { provider, callgate, callers: new gate.Callers(callgate.data) });
  }

  async close() {
    const counts = await this.provider.ask("counts");
    const upstreams = await this.callgate.upstreams().catch((error) => String(error));
    this.callers.stop();
    const events = { ...this.callgate.events };
    await this.callgate.stop();
    await this.provider.stop();
    return { provider: counts, events, upstreams };
  }
}

/// How long those waited that were measured: as callgate says, and as their callers saw it.
class Waits {
  waited = [];
  seen = [];
  refused = {};

  add({ status, ms, waitedMs }, { serviceMs }) {
    if (status !== 200) {
      this.refused[status] = (this.refused[status] ?? 0) + 1;
      return;
    }
    this.waited.push(waitedMs);
    this.seen.push(ms - serviceMs);
  }

  figures() {
    const of = (values) => ({ p50: round(gate.quantile(values, 0.5)), p99: round(gate.quantile(values, 0.99)), max: round(gate.quantile(values, 1)) });
    return { calls: this.waited.length, waitedMs: of(this.waited), seenMs: of(this.seen), refused: this.refused };
  }
}

const most = (what, value, bound, unit) => ({ what, value, bound, unit, pass: value !== null && value <= bound });
const least = (what, value, bound, unit) => ({ what, value, bound, unit, pass: value !== null && value >= bound });

/// Counts by whole second, so that a stop shows.
class Seconds {
  counts = [];
  begin() {
    this.began = performance.now();
  }
  add() {
    if (this.began === undefined) return;
    const second = Math.floor((performance.now() - this.began) / 1_000);
    this.counts[second] = (this.counts[second] ?? 0) + 1;
  }
  figures(seconds) {
    const all = Array.from({ length: Math.floor(seconds) }, (_, i) => this.counts[i] ?? 0);
    return { perSecond: round(all.reduce((sum, one) => sum + one, 0) / all.length), least: Math.min(...all) };
  }
}

/// (a) Ten tenants that always have more, with weights 1 to 5.
export async function weights(run) {
  const luck = gate.random(run.seed);
  const make = jobs(luck, run);
  const tenants = names(kTenants).map((name, i) => ({ name, weight: 1 + (i % 5) }));
  const stage = await Stage.open(run, "weights", tenants);
  const tokens = new Map(tenants.map(({ name }) => [name, 0]));
  const calls = new Map(tokens);
  let measuring = false;
  for (const [i, { name }] of tenants.entries()) {
    // Some write little and some much, so that equal numbers of calls would not be fair.
    const like = { input: 200 + 150 * (i % 4), output: 60 + 90 * (i % 7) };
    stage.callers.backlog(3 * run.slots, () => make(name, like), ({ status, usage }) => {
      if (!measuring || status !== 200) return;
      tokens.set(name, tokens.get(name) + usage.total_tokens);
      calls.set(name, calls.get(name) + 1);
    });
  }
  await sleep(run.warmUp);
  measuring = true;
  await sleep(run.seconds);
  measuring = false;
  const end = await stage.close();
  const shares = tenants.map(({ name, weight }) => tokens.get(name) / weight);
  const sum = shares.reduce((a, b) => a + b, 0);
  const jain = sum ** 2 / (shares.length * shares.reduce((a, b) => a + b * b, 0));
  const per = Object.fromEntries(tenants.map(({ name, weight }, i) => [name, { weight, calls: calls.get(name), tokens: tokens.get(name), ofMean: round((shares[i] * shares.length) / sum, 3) }]));
  const gates = [{ ...least("Jain index of settled tokens per weight", round(jain, 5), 0.99, ""), aim: 0.999 }];
  return { figures: { jain, tenants: per, ...end }, gates };
}

/// (b) One with thousands of jobs, as many of them outstanding as bounds let, beside nine that come at their pace.
export async function whale(run) {
  const luck = gate.random(run.seed);
  const make = jobs(luck, run);
  const paced = names(kTenants - 1);
  const stage = await Stage.open(run, "whale", ["whale", ...paced].map((name) => ({ name })));
  const waits = new Waits();
  const whales = { done: 0, refused: 0 };
  let measuring = false;
  stage.callers.backlog(run.whale, () => make("whale"), ({ status }) => {
    if (!measuring) return;
    status === 200 ? ++whales.done : ++whales.refused;
  });
  const share = run.slots / (run.serviceMs / 1_000) / kTenants;
  for (const name of paced) stage.callers.paced(0.6 * share, luck, () => make(name), (result, job) => measuring && waits.add(result, job));
  await sleep(run.warmUp);
  measuring = true;
  await sleep(run.seconds);
  measuring = false;
  const end = await stage.close();
  const bound = (kTenants * run.serviceMs) / run.slots;
  const figures = { paced: waits.figures(), whale: { outstanding: run.whale, ...whales }, ...end };
  const refused = Object.values(waits.refused).reduce((a, b) => a + b, 0);
  return {
    figures,
    gates: [
      most("p99 wait of the paced, as callgate says", figures.paced.waitedMs.p99, bound, "ms"),
      most("p99 wait of the paced, as they see it", figures.paced.seenMs.p99, bound, "ms"),
      most("paced calls that failed", refused, 0, ""),
    ],
  };
}

/// (c) Calls for which somebody waits, beside bulk items without end.
export async function interactive(run) {
  const luck = gate.random(run.seed);
  const make = jobs(luck, run);
  const bulk = Array.from({ length: run.bulkTenants }, (_, i) => `bulk-${i}`);
  const stage = await Stage.open(run, "interactive", [{ name: "chat", lane: "interactive" }, ...bulk.map((name) => ({ name }))]);
  const waits = new Waits();
  const seconds = new Seconds();
  const items = { tenants: bulk.length, outstanding: bulk.length * run.bulk, done: 0, refused: 0 };
  let measuring = false;
  for (const name of bulk) {
    stage.callers.backlog(run.bulk, () => make(name), ({ status }) => {
      if (!measuring) return;
      if (status === 200) seconds.add();
      status === 200 ? ++items.done : ++items.refused;
    });
  }
  const kept = Math.max(1, Math.floor(0.1 * run.slots));
  // Half of what the kept slots could do alone.
  stage.callers.paced((0.5 * kept) / (run.serviceMs / 1_000), luck, () => make("chat"), (result, job) => measuring && waits.add(result, job));
  await sleep(run.warmUp + items.outstanding / 2_000);
  measuring = true;
  seconds.begin();
  await sleep(run.seconds);
  measuring = false;
  const end = await stage.close();
  const bound = run.serviceMs / kept;
  const figures = { interactive: waits.figures(), bulk: { ...items, ...seconds.figures(run.seconds) }, ...end };
  return {
    figures,
    gates: [
      most("p99 wait of the interactive, as callgate says", figures.interactive.waitedMs.p99, bound, "ms"),
      most("p99 wait of the interactive, as they see it", figures.interactive.seenMs.p99, bound, "ms"),
      least("bulk items done in the worst second", figures.bulk.least, 1, ""),
      most("interactive calls that failed", Object.values(waits.refused).reduce((a, b) => a + b, 0), 0, ""),
    ],
  };
}

/// (d) Nine paced tenants beside one with a backlog, with or without an eleventh, all of whose calls fail.
async function neighbours(run, name, fault) {
  const luck = gate.random(run.seed);
  const make = jobs(luck, run);
  const paced = names(kTenants - 1);
  const stage = await Stage.open(run, name, ["whale", "failing", ...paced].map((name) => ({ name })));
  const waits = new Waits();
  const others = { done: 0, failed: 0 };
  const failures = {};
  let measuring = false;
  stage.callers.backlog(4 * run.slots, () => make("whale"), ({ status }) => {
    if (measuring) status === 200 ? ++others.done : ++others.failed;
  });
  const share = run.slots / (run.serviceMs / 1_000) / (kTenants + 1);
  for (const name of paced) stage.callers.paced(0.6 * share, luck, () => make(name), (result, job) => measuring && waits.add(result, job));
  if (fault) {
    const breaking = jobs(gate.random(run.seed + 1), run);
    stage.callers.paced(share, gate.random(run.seed + 2), () => ({ ...breaking("failing", { status: fault.status }), model: fault.model }), ({ status }) => {
      if (measuring) failures[status] = (failures[status] ?? 0) + 1;
    });
  }
  await sleep(run.warmUp);
  measuring = true;
  await sleep(run.seconds);
  measuring = false;
  const end = await stage.close();
  return { paced: waits.figures(), whale: others, failures, ...end };
}

const kFaults = {
  "by 400": { status: 400 },
  "by 503, own model": { status: 503, model: "gpt-5" },
  "by 503": { status: 503 },
  // It uses its slots like others, so the backlogged one shares with it what was its own.
  "by 500, late": { status: 500, leaves: 0.45 },
};

export async function failing(run) {
  const figures = { "without it": await neighbours(run, "without", undefined) };
  const gates = [];
  const without = figures["without it"];
  // It is one more that takes turns.
  const turn = run.serviceMs / run.slots;
  for (const [name, fault] of Object.entries(kFaults)) {
    const beside = (figures[name] = await neighbours(run, `failing-${fault.status}${fault.model ? "-own" : ""}`, fault));
    const moved = (of) => {
      const [there, here] = [without.paced[of].p99, beside.paced[of].p99];
      return most(`${name}: p99 wait of the paced, ${of === "seenMs" ? "as they see it" : "as callgate says"}, beyond that without it`, here === null ? null : round(here - there), round(turn + 0.1 * there), "ms");
    };
    gates.push(
      moved("waitedMs"),
      moved("seenMs"),
      most(`${name}: paced calls that failed`, Object.values(beside.paced.refused).reduce((a, b) => a + b, 0), 0, ""),
      least(`${name}: backlogged calls done, of those without it`, round(beside.whale.done / without.whale.done, 2), fault.leaves ?? 0.8, ""),
    );
  }
  return { figures, gates };
}

/// (e) All three lanes always have more.
export async function lanes(run) {
  const luck = gate.random(run.seed);
  const make = jobs(luck, run);
  const all = ["interactive", "bulk", "backfill"];
  const stage = await Stage.open(run, "lanes", all.map((name) => ({ name, lane: name })));
  const seconds = Object.fromEntries(all.map((lane) => [lane, new Seconds()]));
  const done = Object.fromEntries(all.map((lane) => [lane, { calls: 0, tokens: 0, refused: 0 }]));
  let measuring = false;
  for (const lane of all) {
    stage.callers.backlog(4 * run.slots, () => make(lane), ({ status, usage }) => {
      if (!measuring) return;
      if (status !== 200) return void ++done[lane].refused;
      seconds[lane].add();
      ++done[lane].calls;
      done[lane].tokens += usage.total_tokens;
    });
  }
  await sleep(run.warmUp);
  measuring = true;
  for (const one of Object.values(seconds)) one.begin();
  await sleep(run.seconds);
  measuring = false;
  const end = await stage.close();
  const sum = all.reduce((tokens, lane) => tokens + done[lane].tokens, 0);
  const figures = { lanes: Object.fromEntries(all.map((lane) => [lane, { ...done[lane], share: round(done[lane].tokens / sum, 3), ...seconds[lane].figures(run.seconds) }])), ...end };
  return {
    figures,
    gates: [
      least("backfill's share of settled tokens", figures.lanes.backfill.share, 0.05, ""),
      least("backfill calls done in the worst five seconds", fives(seconds.backfill, run.seconds), 1, ""),
      least("bulk's share of settled tokens", figures.lanes.bulk.share, 0.1, ""),
    ],
  };
}

function fives({ counts }, seconds) {
  let worst = Infinity;
  for (let i = 0; i + 5 <= seconds; i += 5) {
    let sum = 0;
    for (let k = i; k < i + 5; ++k) sum += counts[k] ?? 0;
    worst = Math.min(worst, sum);
  }
  return worst;
}
