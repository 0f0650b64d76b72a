// The world of the SDK tests: the fake provider and callgate as processes, on free ports, gone with us.
import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const kPatienceMs = 10_000;

function within(ms, what, promise) {
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
    this.process = spawn(file, args, { stdio: ["pipe", "pipe", "inherit"] });
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
  end() {
    this.process.removeAllListeners("exit");
    this.process.kill("SIGTERM");
    return within(kPatienceMs, "the end", new Promise((resolve) => this.process.on("exit", resolve)));
  }
}

export async function start() {
  const provider = new Program(process.env.FAKE_PROVIDER_EXE, ["--listen", "127.0.0.1:0"]);
  const { url, control } = await within(kPatienceMs, "the provider", provider.listening);
  const folder = mkdtempSync(join(tmpdir(), "callgate-sdk-"));
  const config = join(folder, "callgate.yaml");
  writeFileSync(
    config,
    `listen: {data: 127.0.0.1:0, health: 127.0.0.1:0, admin: 127.0.0.1:0}
upstreams: {openai: {url: ${url}}, anthropic: {url: ${url}}, gemini: {url: ${url}}}
retry: {base: 10ms, bulk: {attempts: 3}}
`,
    { mode: 0o600 },
  );
  const callgate = new Program(process.env.CALLGATE_EXE, ["serve", "--config", config]);
  const { data } = await within(kPatienceMs, "callgate", callgate.listening);

  const ask = async (method, path, body) => {
    const answer = await fetch(control + path, { method, body });
    if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
    const text = await answer.text();
    return text ? JSON.parse(text) : undefined;
  };
  return {
    base: `http://${data}`,
    call: () => callgate.call(),
    /// Forgets what was, and orders what shall be.
    async script(rules) {
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
