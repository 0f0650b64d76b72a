// A provider with a quota. It counts what a call will take when it comes (request's `user`: "MS INPUT OUTPUT"), and refuses
// with 429 and Retry-After what is too much.
//   workerData: { rpm, tpm, counts: "bucket" (a minute's worth) | "second" (a bucket of one second's) | "minute" (windows),
//                 headers: tells limit, remaining and reset; stale: tells the limit of the beginning for ever }
//   "halve": from now on half of it · "seconds" → [{ accepted, tokens, refused, share }] since the first request
import { createServer } from "node:http";
import { parentPort, workerData } from "node:worker_threads";

const { rpm, tpm, counts, headers, stale } = workerData;
const kWindow = 60;
let began;
const now = () => performance.now() / 1_000;
// Windows begin with the first request.
const window = (time) => Math.floor((time - (began ?? time)) / kWindow);

class Meter {
  constructor(perMinute) {
    this.perMinute = perMinute;
    this.told = perMinute;
    this.level = this.size();
    this.at = now();
  }
  size() {
    return counts === "second" ? Math.max(1, this.perMinute / 60) : this.perMinute;
  }
  halve() {
    this.refill();
    this.perMinute /= 2;
    this.level = Math.min(this.level, this.size());
    if (!stale) this.told = this.perMinute;
  }
  refill() {
    const at = now();
    if (counts === "minute") {
      if (window(at) > window(this.at)) this.level = this.size();
    } else {
      this.level = Math.min(this.size(), this.level + ((at - this.at) * this.perMinute) / 60);
    }
    this.at = at;
  }
  /// Seconds until it has as much.
  wait(amount) {
    if (counts === "minute" && this.level < amount) return kWindow * (window(this.at) + 1) - this.at + (began ?? this.at);
    if (this.level >= Math.min(amount, this.size())) return 0;
    return ((Math.min(amount, this.size()) - this.level) * 60) / this.perMinute;
  }
  /// Until it is whole again.
  reset() {
    return counts === "minute" ? this.wait(Infinity) : ((this.size() - this.level) * 60) / this.perMinute;
  }
}

const requests = new Meter(rpm);
const tokens = new Meter(tpm);
const seconds = [];
let share = 1;

function second() {
  began ??= now();
  const index = Math.floor(now() - began);
  while (seconds.length <= index) seconds.push({ accepted: 0, tokens: 0, refused: 0, share });
  return seconds[index];
}

/// As OpenAI writes them: 6ms, 1.3s, 1m2.5s.
function duration(time) {
  if (time < 1) return `${Math.ceil(time * 1_000)}ms`;
  const minutes = Math.floor(time / 60);
  return `${minutes > 0 ? `${minutes}m` : ""}${(time - 60 * minutes).toFixed(3)}s`;
}

function told() {
  if (!headers) return {};
  const of = (name, meter) => ({
    [`x-ratelimit-limit-${name}`]: String(Math.round(meter.told)),
    [`x-ratelimit-remaining-${name}`]: String(Math.max(0, Math.floor(meter.level))),
    [`x-ratelimit-reset-${name}`]: duration(meter.reset()),
  });
  return { ...of("requests", requests), ...of("tokens", tokens) };
}

function take(response, [ms, input, output]) {
  const at = second();
  requests.refill();
  tokens.refill();
  const use = input + output;
  const wait = Math.max(requests.wait(1), tokens.wait(use));
  if (wait > 0) {
    ++at.refused;
    const what = requests.wait(1) > 0 ? "requests" : "tokens";
    response.writeHead(429, { "content-type": "application/json", "retry-after": String(Math.max(1, Math.ceil(wait))), ...told() });
    const message = `Rate limit reached for gpt-5-mini on ${what} per min. Please try again in ${duration(wait)}.`;
    return response.end(JSON.stringify({ error: { message, type: what, param: null, code: "rate_limit_exceeded" } }));
  }
  requests.level -= 1;
  tokens.level -= use;
  ++at.accepted;
  at.tokens += use;
  const head = { "content-type": "application/json", ...told() };
  const body = JSON.stringify({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1_764_500_000,
    model: "gpt-5-mini",
    choices: [{ index: 0, message: { role: "assistant", content: "well", refusal: null }, logprobs: null, finish_reason: "stop" }],
    usage: { prompt_tokens: input, completion_tokens: output, total_tokens: use },
  });
  setTimeout(() => response.writeHead(200, head).end(body), ms);
}

const server = createServer({ keepAliveTimeout: 620_000 }, (request, response) => {
  let body = "";
  request.setEncoding("latin1");
  request.on("data", (part) => (body += part));
  request.on("error", () => {});
  request.on("end", () => take(response, JSON.parse(body).user.split(" ").map(Number)));
});
server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => parentPort.postMessage({ answer: "port", value: server.address().port }));
parentPort.on("message", ({ word }) => {
  // So that those without a request are there, too, with the share that they had.
  second();
  if (word === "halve") {
    requests.halve();
    tokens.halve();
    share /= 2;
  }
  if (word === "seconds") parentPort.postMessage({ answer: word, value: seconds });
});
