// What does a key cost, and a store? Two paced streams of calls, one with keys, in turns call by call on the same
// connections, so that whatever else the machine does meets both.
import { createServer } from "node:http";
import { Agent, request } from "node:http";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { Callgate } from "./callgate.mjs";
import { quantile } from "./luck.mjs";

const kCells = [
  { connections: 1, rate: 100 },
  { connections: 16, rate: 400 },
];
const kRounds = 4;  // The stores take turns, too.
const kStores = {
  process: { payloads: "plain", commit: "process" },
  disk: { payloads: "plain", commit: "disk" },
  memory: { path: ":memory:" },
};
// Design's numbers for a keyed call.
const kGateUs = 400;
const kAimUs = 150;

const kAnswer = JSON.stringify({
  id: "chatcmpl-1", object: "chat.completion", created: 1_764_500_000, model: "gpt-5-mini",
  choices: [{ index: 0, message: { role: "assistant", content: "hello", refusal: null }, logprobs: null, finish_reason: "stop" }],
  usage: { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 },
});

async function provider() {
  const server = createServer({ keepAliveTimeout: 620_000 }, (asked, response) => {
    asked.resume().on("end", () => {
      response.writeHead(200, { "content-type": "application/json", "content-length": kAnswer.length, "x-request-id": "req_1" });
      response.end(kAnswer);
    });
  });
  await new Promise((resolve) => server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, resolve));
  return server;
}

// Of all calls: no key comes twice, or a stored answer would be measured.
let number = 0;

class Pace {
  constructor(data, connections) {
    this.agent = new Agent({ keepAlive: true, maxSockets: connections, maxFreeSockets: connections });
    [this.host, this.port] = data.split(":");
  }
  call(keyed) {
    const body = JSON.stringify({ model: "gpt-5-mini", max_completion_tokens: 100, messages: [{ role: "user", content: `Say hello to ${++number}` }] });
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body), authorization: "Bearer sk-test" };
    if (keyed) headers["idempotency-key"] = `cost-${process.pid}-${number}`;
    const began = performance.now();
    return new Promise((resolve, reject) => {
      const sent = request({ agent: this.agent, host: this.host, port: this.port, method: "POST", path: "/openai/v1/chat/completions", headers }, (response) => {
        const once = response.headers["callgate-idempotency"];
        if (response.statusCode !== 200 || (keyed && once !== "stored")) reject(new Error(`callgate answered ${response.statusCode}, ${once}`));
        response.resume().on("end", () => resolve((performance.now() - began) * 1_000));
        response.on("error", reject);
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }
  /// Each 1/rate seconds one: of(i) says whether it has a key.
  async run(rate, seconds, of, hear) {
    const calls = [];
    const began = performance.now();
    for (let i = 0; i < rate * seconds; ++i) {
      const wait = began + (i * 1_000) / rate - performance.now();
      if (wait > 1) await pause(wait);
      const keyed = of(i);
      calls.push(this.call(keyed).then((us) => hear?.(keyed, us)));
    }
    await Promise.all(calls);
    return calls.length;
  }
  stop() {
    this.agent.destroy();
  }
}

/// { cells: latency of calls, cpu: per call, gates, lateMs }
export async function measure({ executable, settings, seconds, say }) {
  const server = await provider();
  const config = { upstreams: { openai: { url: `http://127.0.0.1:${server.address().port}` } } };
  const gates = {};
  for (const [name, store] of Object.entries(kStores)) {
    gates[name] = await Callgate.prepare(executable, config, { store, settings });
    await gates[name].start();
  }
  const delay = monitorEventLoopDelay({ resolution: 2 });
  const cells = ["process", "disk"].flatMap((commit) => kCells.map((cell) => ({ commit, ...cell, times: { keyed: [], unkeyed: [] } })));
  for (const callgate of Object.values(gates)) {
    const warm = new Pace(callgate.data, 16);
    await warm.run(200, 1, (i) => i % 2 === 0);
    warm.stop();
  }
  delay.enable();
  for (let round = 0; round < kRounds; ++round) {
    for (const cell of cells) {
      say(`latency, round ${round + 1} of ${kRounds}: ${cell.commit}, ${cell.connections}`);
      const pace = new Pace(gates[cell.commit].data, cell.connections);
      await pace.run(cell.rate, seconds / kRounds, (i) => i % 2 === 0, (keyed, us) => cell.times[keyed ? "keyed" : "unkeyed"].push(us));
      pace.stop();
    }
  }
  delay.disable();
  const told = cells.map(({ times, ...cell }) => {
    const of = (values) => ({ p10: quantile(values, 0.1), p50: quantile(values, 0.5), p99: quantile(values, 0.99) });
    const [keyed, unkeyed] = [of(times.keyed), of(times.unkeyed)];
    return { ...cell, calls: times.keyed.length, keyed, unkeyed, added: { p10: keyed.p10 - unkeyed.p10, p50: keyed.p50 - unkeyed.p50, p99: keyed.p99 - unkeyed.p99 } };
  });

  const used = Object.fromEntries(Object.keys(kStores).map((name) => [name, { keyed: 0, unkeyed: 0, calls: { keyed: 0, unkeyed: 0 } }]));
  for (let round = 0; round < kRounds; ++round) {
    for (const [name, callgate] of Object.entries(gates)) {
      for (const kind of ["unkeyed", "keyed"]) {
        say(`CPU, round ${round + 1} of ${kRounds}: ${name}, ${kind}`);
        const pace = new Pace(callgate.data, 16);
        const before = callgate.cpu();
        used[name].calls[kind] += await pace.run(400, seconds / kRounds, () => kind === "keyed");
        // What the store does behind the answers belongs to them.
        await pause(200);
        used[name][kind] += callgate.cpu() - before;
        pace.stop();
      }
    }
  }
  const perCall = (name, kind) => used[name][kind] / 1_000 / used[name].calls[kind];
  const cpu = Object.keys(kStores).map((name) => ({
    name: name === "memory" ? ":memory:" : `commit: ${name}`,
    unkeyed: perCall(name, "unkeyed"),
    keyed: perCall(name, "keyed"),
    unkeyedRatio: perCall(name, "unkeyed") / perCall("memory", "unkeyed"),
    keyedRatio: perCall(name, "keyed") / perCall("memory", "keyed"),
  }));
  for (const callgate of Object.values(gates)) await callgate.stop();
  server.close();
  server.closeAllConnections();
  const first = told.find(({ commit, connections }) => commit === "process" && connections === 1);
  const added = first.added.p50;
  return {
    cells: told,
    cpu,
    lateMs: delay.percentile(99) / 1e6 - 2,
    gates: [{ what: "added p50 of a keyed call, one connection, commit: process", value: `${Math.round(added)} µs`, bound: `${kGateUs} µs (aim ${kAimUs})`, pass: added <= kGateUs }],
  };
}
