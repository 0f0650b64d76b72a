// The world of one SDK's tests: the fake provider and callgate as processes, on free ports, gone with us.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

// Ours is no key of callgate's, which would say so.
const kEnvironment = { ...process.env };
delete kEnvironment.CALLGATE_EXE;
const kPatienceMs = 20_000;

// Whatever ends us, nothing stays behind.
const programs = new Set();
process.on("exit", () => programs.forEach((program) => program.process.kill("SIGKILL")));

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function within(ms, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

class Program {
  constructor(file, args) {
    this.calls = [];
    this.waiting = [];
    this.process = spawn(file, args, { stdio: ["pipe", "pipe", "inherit"], env: kEnvironment });
    programs.add(this);
    this.listening = new Promise((resolve, reject) => {
      createInterface({ input: this.process.stdout }).on("line", (line) => {
        const said = JSON.parse(line);
        if (said.event === "listening") resolve(said);
        if (said.event !== "call") return;
        const next = this.waiting.shift();
        next ? next(said) : this.calls.push(said);
      });
      this.process.on("error", reject);
      this.process.on("exit", (code) => reject(new Error(`${file} ended with ${code}`)));
    });
  }
  /// The next call's log line that was not asked for yet.
  call() {
    const ready = this.calls.shift();
    if (ready) return Promise.resolve(ready);
    return within(kPatienceMs, "a call's log line", new Promise((resolve) => this.waiting.push(resolve)));
  }
  peakMemory() {
    return 1024 * Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${this.process.pid}/status`, "utf8"))[1]);
  }
  async end() {
    this.process.removeAllListeners("exit");
    const ended = new Promise((resolve) => this.process.on("exit", resolve));
    this.process.kill("SIGTERM");
    const code = this.process.exitCode ?? (await within(kPatienceMs, "the end", ended));
    programs.delete(this);
    return code;
  }
}

/// upstreams: name → path behind the fake provider's address. limits, and whatever else is in `more`: of callgate's
/// configuration.
export async function start({ upstreams = {}, limits = {}, memo = "0s", more = {} } = {}) {
  const provider = new Program(process.env.FAKE_PROVIDER_EXE, ["--listen", "127.0.0.1:0"]);
  const { url, control } = await within(kPatienceMs, "the provider", provider.listening);
  const folder = mkdtempSync(join(tmpdir(), "callgate-sdk-"));
  const config = join(folder, "callgate.yaml");
  const paths = { openai: "", anthropic: "", gemini: "", ...upstreams };
  // JSON is YAML, too.
  const settings = {
    listen: { data: "127.0.0.1:0", health: "127.0.0.1:0", admin: "127.0.0.1:0" },
    upstreams: Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, { url: url + path }])),
    // Each row stands for itself: what the last one's failures have taught is none of its business.
    retry: { base: "10ms", bulk: { attempts: 3 }, budget: { floor: 1000000 } },
    memo: { final_failure: memo },
    breaker: { min_calls: 1000000, consecutive: 1000000 },
    stream: { heartbeat: "1s" },
    limits: { body_bytes: "32MiB", ...limits },
    store: { path: join(folder, "callgate.db") },
    ...more,
  };
  writeFileSync(config, JSON.stringify(settings), { mode: 0o600 });
  const callgate = new Program(process.env.CALLGATE_EXE, ["serve", "--config", config]);
  const { data, health } = await within(kPatienceMs, "callgate", callgate.listening);

  const ask = async (method, path, body) => {
    const answer = await fetch(control + path, { method, body });
    if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
    const text = await answer.text();
    return text ? JSON.parse(text) : undefined;
  };
  const callsInFlight = async () => {
    const text = await (await fetch(`http://${health}/metrics`)).text();
    const values = [...text.matchAll(/^callgate_calls_in_flight(?:\{[^}]*\})? (\S+)$/gm)].map((match) => Number(match[1]));
    return values.reduce((sum, value) => sum + value, 0);
  };
  const rest = async () => {
    const patience = Date.now() + kPatienceMs;
    while ((await callsInFlight()) > 0) {
      if (Date.now() > patience) throw new Error("callgate does not come to rest");
      await pause(5);
    }
  };
  return {
    base: `http://${data}`,
    provider: url,
    control,
    call: () => callgate.call(),
    peakMemory: () => callgate.peakMemory(),
    callsInFlight,
    /// Until every call has ended.
    rest,
    /// Forgets what was, and orders what shall be.
    async script(rules) {
      await rest();
      await ask("POST", "/reset");
      await ask("PUT", "/script", JSON.stringify(rules));
      callgate.calls.length = 0;
    },
    seen: () => ask("GET", "/seen"),
    wait: (condition) => ask("GET", `/wait?${condition}&timeout_ms=${kPatienceMs}`),
    async end() {
      const code = await callgate.end();
      await provider.end();
      rmSync(folder, { recursive: true });
      if (code !== 0) throw new Error(`callgate ended with ${code}`);
    },
  };
}
