// What was seen, as pages.

const line = (cells) => `| ${cells.join(" | ")} |`;
const table = (head, rows) => [line(head), line(head.map((_, i) => (i === 0 ? "---" : "--:"))), ...rows.map(line)].join("\n");
const counted = (counts) => Object.entries(counts).sort(([, a], [, b]) => b - a).map(([name, count]) => `${name} ${count}`).join(", ") || "–";
const told = (pass) => (pass ? "pass" : "**FAIL**");

function details({ mode, figures: f }) {
  const { queue: q } = f;
  return [
    `## ${mode}`,
    "",
    table(
      ["", ""],
      [
        ["seconds under kills and after", f.seconds],
        ["starts, ms (p50, p99)", `${f.startMs.p50}, ${f.startMs.p99}`],
        ["a job's first answer, ms (p50, p99, max)", `${f.jobMs.p50}, ${f.jobMs.p99}, ${f.jobMs.max}`],
        ["deliveries", `${q.deliveries}, of them ${q.twins} beside a slow one and ${q.ackLost} after success`],
        ["… answered; failed", `${q.answers}; ${q.failures}`],
        ["… Callgate-Idempotency", counted(q.idempotency)],
        ["… failures", counted(q.errors)],
        ["calls in the ledger", `${f.calls} (${counted(f.outcomes)}); once: ${counted(f.once)}`],
        ["… that an SDK repeated; whose caller had gone", `${f.sdkRetries}; ${f.callerGone ?? 0}`],
        ["provider's refusals", counted(f.refused)],
        ["executions; finished; extra", `${f.executions}; ${f.finished}; ${f.extra}`],
        ["in flight at kills: rows; as the provider saw it", `${f.unknown}; ${f.inFlightAtKills}`],
        ["possibly billed attempts", f.possiblyBilled],
        ["cost; charged, nano-USD", `${f.costNano}; ${f.chargedNano}`],
        ["answers that did not wait for their commit any longer", f.lateCommits],
      ],
    ),
    "",
  ];
}

export function oncePage(results, about) {
  const gates = results[0].gates.map(({ what }, i) => [what, ...results.map((result) => `${told(result.gates[i].pass)}: ${result.gates[i].told}`)]);
  const all = results.flatMap((result) => result.gates);
  return ["# Paid once", "", ...about, "", table(["", ...results.map(({ mode }) => mode)], gates), "", ...results.flatMap(details), `${all.filter(({ pass }) => pass).length} of ${all.length} gates hold.`, ""].join("\n");
}

const us = (value) => Math.round(value);

export function costPage({ cells, cpu, gates, lateMs }, about) {
  const rows = cells.map((cell) => [
    `${cell.commit}, ${cell.connections} connection${cell.connections > 1 ? "s" : ""}, ${cell.rate}/s`,
    cell.calls, us(cell.added.p10), us(cell.unkeyed.p50), us(cell.keyed.p50), us(cell.added.p50), us(cell.unkeyed.p99), us(cell.keyed.p99), us(cell.added.p99),
  ]);
  return [
    "# What a key and a store cost",
    "",
    ...about,
    "",
    table(["µs", "calls each", "added p10", "p50 without", "p50 with key", "added p50", "p99 without", "p99 with key", "added p99"], rows),
    "",
    table(["CPU per call, µs", ...cpu.map(({ name }) => name)], ["unkeyed", "keyed"].map((kind) => [kind, ...cpu.map((one) => `${us(one[kind])} (${one[`${kind}Ratio`].toFixed(2)})`)])),
    "",
    "In brackets: over the same with `:memory:`.",
    "",
    table(["what", "measured", "gate", "verdict"], gates.map(({ what, value, bound, pass }) => [what, value, bound, told(pass)])),
    "",
    ...(lateMs > 3 ? [`The machine was ${lateMs.toFixed(1)} ms late (p99 of the callers' loop).`, ""] : []),
  ].join("\n");
}
