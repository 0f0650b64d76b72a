// The Python SDKs, where they could be installed: SDK_PYTHON is the interpreter that has them.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const kAllMs = 90_000;

const family = (module) => ({
  name: `python ${module}`,
  /// Plays all scenarios; tells each with its error, if any.
  async play(world, tell) {
    const environment = { ...process.env, BASE: world.base, PROVIDER: world.provider, CONTROL: world.control };
    // As on a machine behind a company's proxy; that proxy would be the provider itself, which sees what it gets.
    const proxies = { HTTP_PROXY: world.provider, NO_PROXY: "127.0.0.1,localhost" };
    for (const name of ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy"]) delete environment[name];
    const script = new URL("python/scenarios.py", import.meta.url).pathname;
    const python = spawn(process.env.SDK_PYTHON, [script, module], { env: { ...environment, ...proxies }, stdio: ["ignore", "pipe", "inherit"], timeout: kAllMs });
    const ended = new Promise((resolve, reject) => {
      python.on("error", reject);
      python.on("exit", (code, signal) => resolve(code ?? signal));
    });
    for await (const line of createInterface({ input: python.stdout })) {
      const { row, error } = JSON.parse(line);
      tell(row, error ? { stack: error } : undefined);
    }
    const how = await ended;
    if (how !== 0) tell("plain call", new Error(`python ended with ${how}`));
  },
});

export const clients = ["openai", "anthropic", "genai"].map(family);
/// Why there are none; nothing if there are.
export const missing = process.env.SDK_PYTHON ? undefined : process.env.SDK_PYTHON_MISSING ?? "SDK_PYTHON is not set";
