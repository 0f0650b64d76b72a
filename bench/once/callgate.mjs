// The program under test: one configuration, one store file and the same ports through all of its lives.
import { spawn } from "node:child_process";
import { createWriteStream, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

// Whatever ends us, nothing stays behind.
const programs = new Set();
const folder = mkdtempSync(join(tmpdir(), "callgate-once-"));
let files = 0;
process.on("exit", () => {
  for (const program of programs) program.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

const kStartMs = 20_000;

/// Below those that the kernel gives to clients: one of these, trying to reach us while we are dead, would meet itself.
async function freePorts(count) {
  const free = [];
  for (let port = 21_000 + Math.floor(Math.random() * 9_000); free.length < count; ++port) {
    const can = await new Promise((resolve) => {
      const server = createServer();
      server.on("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (can) free.push(port);
  }
  return free;
}

export class Callgate {
  /// config: beside listeners; store: of the configuration. log: a file that keeps its lines, if any.
  static async prepare(executable, config, { store = {}, settings = [], log } = {}) {
    const one = new Callgate();
    const [data, health, admin] = (await freePorts(3)).map((port) => `127.0.0.1:${port}`);
    const name = join(folder, String(++files));
    one.database = store.path ?? `${name}.db`;
    writeFileSync(`${name}.yaml`, JSON.stringify({ listen: { data, health, admin }, ...config, store: { ...store, path: one.database } }), { mode: 0o600 });
    Object.assign(one, { executable, data, health, admin, settings, file: `${name}.yaml` });
    one.log = log && createWriteStream(log);
    /// Of all lives: kills that we asked for, ends that we did not, starts that failed, and what its log told, by event.
    Object.assign(one, { kills: [], ownEnds: [], startMs: [], events: {}, lateCommits: 0 });
    return one;
  }
  static secret(bytes) {
    const name = join(folder, `key-${++files}`);
    writeFileSync(name, bytes, { mode: 0o600 });
    return name;
  }

  /// Resolves when it listens; rejects when it ended before that, unless it was killed.
  start() {
    const began = performance.now();
    const program = spawn(this.executable, ["serve", "--config", this.file, ...this.settings.flatMap((one) => ["--set", one])], { stdio: ["ignore", "pipe", "pipe"] });
    programs.add(program);
    this.program = program;
    this.stopping = false;
    let said = "";
    program.stderr.on("data", (text) => (said = (said + text).slice(-4_000)));
    this.ended = new Promise((resolve) => {
      program.on("exit", (code, signal) => {
        programs.delete(program);
        if (!this.stopping) {
          const end = `${code ?? signal}: ${said.trim()}`;
          this.ownEnds.push(end);
          process.stderr.write(`\ncallgate ended with ${end}\n`);
        }
        resolve();
      });
    });
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`callgate does not listen after ${kStartMs} ms: ${said}`)), kStartMs);
      createInterface({ input: program.stdout }).on("line", (line) => {
        this.log?.write(`${line}\n`);
        if (line.includes('"event":"call"')) return;
        let entry;
        try {
          entry = JSON.parse(line);
        } catch {
          return;  // Cut by the kill.
        }
        this.events[entry.event] = (this.events[entry.event] ?? 0) + 1;
        if (entry.event !== "listening") return;
        clearTimeout(late);
        this.startMs.push(performance.now() - began);
        this.#countLate(program);
        resolve(true);
      });
      program.on("error", reject);
      this.ended.then(() => {
        clearTimeout(late);
        this.stopping ? resolve(false) : reject(new Error(`callgate ended before it listened: ${said}`));
      });
    });
  }
  /// Answers that did not wait for their commit any longer, as far as they can be seen before a kill.
  async #countLate(program) {
    for (let seen = 0; programs.has(program); await pause(100)) {
      const now = await this.metric("callgate_commits_late_total").catch(() => seen);
      this.lateCommits += now - seen;
      seen = now;
    }
  }
  async kill() {
    this.stopping = true;
    this.kills.push(Date.now());
    this.program.kill("SIGKILL");
    await this.ended;
  }
  async stop() {
    this.stopping = true;
    this.program.kill("SIGTERM");
    const hung = setTimeout(() => this.program.kill("SIGKILL"), 40_000);
    await this.ended;
    clearTimeout(hung);
  }
  /// Waits until nothing is under way, those that no caller waits for included.
  async idle(patienceMs) {
    for (const until = performance.now() + patienceMs; performance.now() < until; await pause(200)) {
      const status = await (await fetch(`http://${this.admin}/v1/status`)).json();
      if (status.calls_in_all === 0) return true;
    }
    return false;
  }
  budgets = async () => (await (await fetch(`http://${this.admin}/v1/budgets`)).json()).budgets;
  async metric(name) {
    const text = await (await fetch(`http://${this.health}/metrics`)).text();
    return text.split("\n").filter((line) => line.startsWith(name) && /[ {]/.test(line[name.length])).reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
  }
  /// Of all its threads, in nanoseconds.
  cpu() {
    const tasks = `/proc/${this.program.pid}/task`;
    return readdirSync(tasks).reduce((sum, thread) => sum + Number(readFileSync(`${tasks}/${thread}/schedstat`, "utf8").split(" ")[0]), 0);
  }
}
