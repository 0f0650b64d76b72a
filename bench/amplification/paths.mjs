// The ways from a worker to the provider. Each takes the provider's port and resolves to { base(client), … }.
import { spawn, spawnSync } from "node:child_process";
import { createWriteStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const kPatienceMs = 30_000;

// Whatever ends us, nothing stays behind.
const programs = new Set();
let folder;
process.on("exit", () => {
  for (const program of programs) program.kill("SIGKILL");
  if (folder) rmSync(folder, { recursive: true, force: true });
});

function start(file, args) {
  const program = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"] });
  programs.add(program);
  return program;
}

function write(name, text) {
  folder ??= mkdtempSync(join(tmpdir(), "callgate-amplification-"));
  const file = join(folder, name);
  writeFileSync(file, text, { mode: 0o600 });
  return file;
}

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

const answers = (port) =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => resolve(true));
    socket.on("error", () => resolve(false));
    socket.on("close", () => socket.destroy());
    socket.on("connect", () => socket.end());
  });

export const hasHaproxy = () => spawnSync("haproxy", ["-v"]).status === 0;

export function direct(port) {
  return { base: (client) => `http://127.0.0.1:${port}${client.direct}` };
}

export async function haproxy(port) {
  const own = await freePort();
  // As its manual has it for retries; a 429 is none of its reasons.
  const config = `
global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 10m
  timeout server 10m
  retries 3
  retry-on all-retryable-errors
listen provider
  bind 127.0.0.1:${own}
  server provider 127.0.0.1:${port}
`;
  const program = start("haproxy", ["-db", "-f", write("haproxy.cfg", config)]);
  let said = "";
  program.stderr.on("data", (text) => (said += text));
  program.stdout.resume();
  const patience = Date.now() + kPatienceMs;
  while (!(await answers(own))) {
    if (program.exitCode !== null || Date.now() > patience) throw new Error(`haproxy does not start: ${said}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return { base: (client) => `http://127.0.0.1:${own}${client.direct}` };
}

/// settings: KEY=VALUE instead of defaults; log: a file that keeps callgate's lines; if any.
export async function callgate(port, client, { executable, settings, log }) {
  const address = "127.0.0.1:0";
  // Everything else is the default. JSON is YAML, too.
  const config = {
    listen: { data: address, health: address, admin: address },
    upstreams: { [client.upstream]: { url: `http://127.0.0.1:${port}` } },
  };
  const file = write("callgate.yaml", JSON.stringify(config));
  const program = start(executable, ["serve", "--config", file, "--set", `store.path=${file}.db`, ...settings.flatMap((one) => ["--set", one])]);
  let said = "";
  program.stderr.on("data", (text) => (said += text));
  const kept = log && createWriteStream(log);
  const events = {};
  const count = (what) => (events[what] = (events[what] ?? 0) + 1);
  const listening = new Promise((resolve, reject) => {
    createInterface({ input: program.stdout }).on("line", (line) => {
      kept?.write(`${line}\n`);
      const entry = JSON.parse(line);
      if (entry.event === "listening") resolve(entry);
      count(entry.event === "call" ? `call ${entry.status} ${entry.class} ${entry.reason ?? ""}`.trim() : entry.event);
    });
    program.on("error", reject);
    program.on("exit", (code) => reject(new Error(`callgate ended with ${code}: ${said}`)));
  });
  const { data, health } = await listening;
  return {
    base: ({ at }) => `http://${data}${at}`,
    /// What its log told, by event; of calls: by status, class and reason.
    events,
    metrics: async () => (await fetch(`http://${health}/metrics`)).text(),
    headers: (job) => ({ "callgate-run-id": job }),
  };
}
