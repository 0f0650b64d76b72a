// The program under test, and callers of it: plain keep-alive HTTP, no SDK and no retry but the job's own. Used by the
// measurement of quotas, too.
import { spawn } from "node:child_process";
import { setMaxListeners } from "node:events";
import { createWriteStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { Worker } from "node:worker_threads";

export const kModel = "gpt-5-mini";

// Whatever ends us, nothing stays behind.
const programs = new Set();
let started = 0;
const folder = mkdtempSync(join(tmpdir(), "callgate-bench-"));
process.on("exit", () => {
  for (const program of programs) program.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

/// config: beside the listeners; settings: KEY=VALUE; log: a file that keeps its lines, if any.
export async function start(executable, config, { settings = [], log } = {}) {
  const address = "127.0.0.1:0";
  const file = join(folder, `callgate-${++started}.yaml`);
  // JSON is YAML, too.
  writeFileSync(file, JSON.stringify({ listen: { data: address, health: address, admin: address }, ...config }), { mode: 0o600 });
  const program = spawn(executable, ["serve", "--config", file, "--set", `store.path=${file}.db`, ...settings.flatMap((one) => ["--set", one])], { stdio: ["ignore", "pipe", "pipe"] });
  programs.add(program);
  let said = "";
  program.stderr.on("data", (text) => (said += text));
  const kept = log ? createWriteStream(log) : undefined;
  const events = {};
  let stopping = false;
  const listening = new Promise((resolve, reject) => {
    createInterface({ input: program.stdout }).on("line", (line) => {
      kept?.write(`${line}\n`);
      // Lines of calls are many, and of interest only to a reader of the file.
      if (line.includes('"event":"call"')) return;
      const entry = JSON.parse(line);
      if (entry.event === "listening") resolve(entry);
      events[entry.event] = (events[entry.event] ?? 0) + 1;
    });
    program.on("error", reject);
    program.on("exit", (code, signal) => {
      reject(new Error(`callgate ended with ${code ?? signal}: ${said}`));
      if (stopping) return;
      process.stderr.write(`callgate ended with ${code ?? signal}: ${said}\n`);
      process.exit(1);
    });
  });
  const { data, health, admin } = await listening;
  return {
    data,
    /// What its log told, by event; without calls.
    events,
    metrics: async () => (await fetch(`http://${health}/metrics`)).text(),
    upstreams: async () => (await fetch(`http://${admin}/v1/upstreams`)).json(),
    async stop() {
      stopping = true;
      const over = new Promise((resolve) => program.on("exit", resolve));
      program.kill("SIGKILL");
      await over;
      programs.delete(program);
      kept?.end();
    },
  };
}

/// A simulated provider in a thread of its own: a busy caller must not look like a slow provider.
export async function provider(url, data) {
  const worker = new Worker(url, { workerData: data });
  const heard = new Map();
  worker.on("message", ({ answer, value }) => heard.get(answer)?.(value));
  const hear = (answer) =>
    new Promise((resolve, reject) => {
      heard.set(answer, resolve);
      worker.once("error", reject);
    });
  const port = await hear("port");
  return {
    port,
    tell: (word, value) => worker.postMessage({ word, value }),
    async ask(word) {
      const answer = hear(word);
      worker.postMessage({ word });
      return answer;
    },
    stop: () => worker.terminate(),
  };
}

/// Many callers at one callgate, each call on a connection that is kept.
export class Callers {
  #agent = new Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: Infinity });
  #host;
  #port;
  #gone = new AbortController();

  constructor(data) {
    [this.#host, this.#port] = data.split(":");
    setMaxListeners(0, this.#gone.signal);
    this.over = false;
  }

  /// Resolves to { status, ms, waitedMs (as callgate says), retryAfterMs, usage }; status 0: the connection broke.
  call({ tenant, lane, model = kModel, bytes, output, job }) {
    const body = JSON.stringify({ model, max_completion_tokens: output, user: job, messages: [{ role: "user", content: "x".repeat(bytes) }] });
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body), authorization: "Bearer sk-test", "callgate-tenant": tenant };
    if (lane) headers["callgate-lane"] = lane;
    const began = performance.now();
    return new Promise((resolve) => {
      const failed = () => resolve({ status: 0, ms: performance.now() - began });
      const sent = request({ agent: this.#agent, host: this.#host, port: this.#port, method: "POST", path: "/openai/v1/chat/completions", headers }, (response) => {
        let said = "";
        response.setEncoding("latin1");
        response.on("data", (part) => (said += part));
        response.on("error", failed);
        response.on("end", () => {
          const ms = performance.now() - began;
          const of = (name) => Number(response.headers[name] ?? NaN);
          let usage;
          if (response.statusCode === 200) usage = JSON.parse(said).usage;
          resolve({ status: response.statusCode, ms, waitedMs: of("callgate-queue-ms"), retryAfterMs: of("callgate-retry-after-ms"), usage });
        });
      });
      sent.on("error", failed);
      sent.end(body);
    });
  }

  /// Keeps `outstanding` calls open until the end; done(result, job) hears of each. One that was refused comes again when
  /// it was told to.
  backlog(outstanding, make, done) {
    const life = async () => {
      while (!this.over) {
        const job = make();
        const result = await this.call(job);
        if (this.over) return;
        done(result, job);
        if (result.status !== 200) await this.rest(result.retryAfterMs || 1_000);
      }
    };
    for (let i = 0; i < outstanding; ++i) life();
  }

  /// One call each 1/rate seconds, none exactly: whoever comes waits for nobody before it.
  async paced(rate, random, make, done) {
    let due = performance.now() + (1_000 * random()) / rate;
    while (!this.over) {
      // In [0.5, 1.5) of its interval.
      const wait = due - performance.now();
      if (wait > 0) await this.rest(wait);
      if (this.over) return;
      const job = make();
      this.call(job).then((result) => !this.over && done(result, job));
      due += (1_000 * (0.5 + random())) / rate;
    }
  }

  async rest(ms) {
    await pause(ms, undefined, { signal: this.#gone.signal }).catch(() => {});
  }

  stop() {
    this.over = true;
    this.#gone.abort();
    this.#agent.destroy();
  }
}

/// mulberry32, seeded.
export function random(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export function quantile(values, q) {
  const sorted = Float64Array.from(values).sort();
  return sorted.length > 0 ? sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] : null;
}
