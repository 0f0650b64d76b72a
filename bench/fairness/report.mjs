// What was measured, as a page: a table of all gates, then what is behind them.

const kTitles = {
  weights: "Ten backlogged tenants, weights 1 to 5",
  whale: "A whale beside nine paced tenants",
  interactive: "Interactive calls beside bulk items",
  failing: "Beside a tenant whose calls all fail",
  lanes: "All lanes backlogged",
};

const line = (cells) => `| ${cells.join(" | ")} |`;
export function table(head, rows) {
  return [line(head), line(head.map((_, i) => (i === 0 ? "---" : "--:"))), ...rows.map(line)].join("\n");
}

function verdict({ pass, value, aim }) {
  if (!pass) return "**FAIL**";
  return aim !== undefined && value < aim ? `pass, not the aim (${aim})` : "pass";
}

const show = ({ value, unit }) => `${value ?? "–"}${unit && ` ${unit}`}`;

const kDetails = {
  weights: ({ tenants }) =>
    table(["tenant", "weight", "calls", "tokens", "tokens per weight ÷ mean"], Object.entries(tenants).map(([name, one]) => [name, one.weight, one.calls, one.tokens, one.ofMean])),
  whale: ({ paced, whale }) => `${waits([["paced", paced]])}\n\nThe whale: ${whale.outstanding} outstanding, ${whale.done} done, ${whale.refused} refused.`,
  interactive: ({ interactive, bulk }) =>
    `${waits([["interactive", interactive]])}\n\nBulk: ${bulk.outstanding} outstanding of ${bulk.tenants} tenants, ${bulk.done} done (${bulk.perSecond} a second, ${bulk.least} in the worst), ${bulk.refused} refused.`,
  failing: (all) => {
    const count = (counts) => Object.entries(counts).map(([name, value]) => `${name}: ${value}`).join(", ") || "–";
    const ends = Object.entries(all).map(([name, { whale, failures, provider, events }]) => [name, whale.done, count(failures), provider.failed, events.breaker_opened ?? 0]);
    const head = ["", "backlogged calls done", "the failing one's ends", "its attempts", "breaker opened"];
    return `${waits(Object.entries(all).map(([name, { paced }]) => [name, paced]))}\n\n${table(head, ends)}`;
  },
  lanes: ({ lanes }) =>
    table(["lane", "calls", "tokens", "share", "a second", "worst second", "refused"], Object.entries(lanes).map(([name, one]) => [name, one.calls, one.tokens, one.share, one.perSecond, one.least, one.refused])),
};

function waits(rows) {
  const cells = ({ calls, waitedMs, seenMs }) => [calls, waitedMs.p50, waitedMs.p99, waitedMs.max, seenMs.p50, seenMs.p99, seenMs.max].map((value) => value ?? "–");
  return table(["waits, ms", "calls", "p50", "p99", "max", "p50 seen", "p99 seen", "max seen"], rows.map(([name, figures]) => [name, ...cells(figures)]));
}

export function markdown(results, about) {
  const rows = results.flatMap(({ scene, gates }) =>
    gates.map((gate) => [scene, gate.what, show(gate), `${gate.bound}${gate.unit && ` ${gate.unit}`}`, verdict(gate)]),
  );
  const parts = ["# Fairness", "", ...about, "", table(["scene", "what", "measured", "gate", "verdict"], rows), ""];
  for (const { scene, figures, lateMs } of results) {
    parts.push(`## ${kTitles[scene]}`, "", kDetails[scene](figures), "");
    if (lateMs > 10) parts.push(`The machine was ${lateMs} ms late (p99 of the callers' loop).`, "");
  }
  const all = results.flatMap(({ gates }) => gates);
  parts.push(`${all.filter(({ pass }) => pass).length} of ${all.length} gates hold.`, "");
  return parts.join("\n");
}
