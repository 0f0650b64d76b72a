// What the cells say: the gates, and a table per way of failing.

const kGates = { gate: 1.2, aim: 1.1 };
const kShort = { direct: "dir", haproxy: "HAP", callgate: "cg" };

const ratio = (a, b) => (b > 0 ? a / b : null);

/// Adds to the result: per path the two ratios; missed: the gates that callgate missed, aims: the aims.
export function judge(result) {
  const { share, jobs, paths, outages } = result;
  for (const path of Object.values(paths)) {
    path.share = path.completed / jobs;
    path.perCompleted = ratio(path.requests, path.completed);
    path.perJob = path.requests / jobs;
  }
  const { callgate, direct } = paths;
  result.missed = [];
  result.aims = [];
  if (!callgate) return;
  const hold = (what, value, bound) => {
    if (value > bound * kGates.gate) result.missed.push(what);
    else if (value > bound * kGates.aim) result.aims.push(what);
  };
  if (share >= 1) {
    hold("attempts per job", callgate.perJob, 1);
    return;
  }
  if (direct && callgate.completed < direct.completed) result.missed.push("completed");
  // Few random requests fail more often than they should, or less; no policy can help that. What counts is what did fail.
  const failed = outages ? share : Math.max(share, callgate.requests > 0 ? callgate.failures / callgate.requests : 0);
  hold("attempts per completed", callgate.perCompleted ?? Infinity, 1 / (1 - failed));
}

const percent = (value) => `${(100 * value).toFixed(value < 1 && value > 0.999 ? 2 : 1)}`;
const number = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));

function verdict({ missed, aims }) {
  if (missed.length > 0) return `**FAIL** ${missed.join(", ")}`;
  return aims.length > 0 ? `pass, not the aim: ${aims.join(", ")}` : "pass";
}

function table(results, names) {
  const groups = [
    ["done %", (path) => percent(path.share)],
    ["requests", (path) => String(path.requests)],
    ["÷ done", (path) => number(path.perCompleted)],
    ["÷ jobs", (path) => number(path.perJob)],
    ["p95 s", (path) => number(path.p95, 1)],
  ];
  const heads = groups.flatMap(([title]) => names.map((name) => `${title} ${kShort[name]}`));
  const head = ["client", "jobs/s", "jobs", ...heads, "open cg", "verdict"];
  const rows = results.map((result) => [
    result.client,
    result.rate,
    result.jobs,
    ...groups.flatMap(([, show]) => names.map((name) => (result.paths[name] ? show(result.paths[name]) : "–"))),
    result.paths.callgate?.open ?? "–",
    verdict(result) + (result.lateMs > 250 ? ` (the machine was ${Math.round(result.lateMs)} ms late)` : ""),
  ]);
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map((_, i) => (i === 0 || i === head.length - 1 ? "---" : "--:"))), ...rows.map(line)].join("\n");
}

export function markdown(results, names, about) {
  const parts = ["# Amplification", "", ...about, ""];
  const keys = [...new Set(results.map(({ outages, kind, share }) => JSON.stringify({ outages, kind, share })))];
  for (const key of keys) {
    const { outages, kind, share } = JSON.parse(key);
    const how = { 503: "503", 429: "429 with Retry-After: 1", reset: "connection resets" }[kind];
    const when = share >= 1 ? "always" : outages ? `for ${percent(share)} % of each 20 s` : `at random, ${percent(share)} % of requests`;
    const allowed = share >= 1 ? "attempts ÷ jobs ≤ 1.2" : `attempts ÷ done ≤ ${number(kGates.gate / (1 - share))}, done ≥ direct`;
    const mine = results.filter((result) => result.outages === outages && result.kind === kind && result.share === share);
    parts.push(`## ${how}, ${when} (${allowed})`, "", table(mine, names), "");
  }
  const judged = results.filter(({ paths }) => paths.callgate);
  const bad = judged.filter(({ missed }) => missed.length > 0);
  const count = (what) => judged.filter(({ missed }) => missed.includes(what)).length;
  parts.push(
    `${judged.length - bad.length} of ${judged.length} cells pass` +
      (bad.length > 0 ? `; missed: ${["completed", "attempts per completed", "attempts per job"].map((what) => `${what} ${count(what)}`).join(", ")}` : ""),
    "",
  );
  return parts.join("\n");
}
