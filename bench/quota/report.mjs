// What the cells say: the gates, and a table.
import { table } from "../fairness/report.mjs";

const kGates = { told: { used: 0.95, refused: 0.01 }, stale: { used: 0.85, refused: 1 }, silent: { used: 0.85, refused: 1 } };

/// Adds `missed`. What is told apart is not judged.
export function judge(result) {
  const { used, refused } = kGates[result.headers];
  result.missed = [];
  for (const name of ["steady", "after"]) {
    const phase = result.phases[name];
    if (!(phase.used >= used)) result.missed.push(`${name}: used`);
    if (!(phase.refusedShare < refused)) result.missed.push(`${name}: 429`);
  }
  return result;
}

const percent = (value) => (100 * value).toFixed(1);
const what = { told: "told by headers", silent: "silent", stale: "told, the old limit for ever" };

export function markdown(results, about) {
  const phases = [["start", "start"], ["steady", "steady"], ["halving", "halving"], ["after", "halved"]];
  const head = ["load", "counts by", "limits", ...phases.flatMap(([, title]) => [`used %, ${title}`, `429 %, ${title}`]), "verdict"];
  const rows = results.map((result) => [
    result.load,
    result.counts,
    what[result.headers],
    ...phases.flatMap(([name]) => [percent(result.phases[name].used), percent(result.phases[name].refusedShare)]),
    result.missed.length > 0 ? `**FAIL** ${result.missed.join(", ")}` : "pass",
  ]);
  const good = results.filter(({ missed }) => missed.length === 0).length;
  return [
    "# Quota",
    "",
    ...about,
    "Gates, of what is steady: told by headers ≥ 95 % used and < 1 % of answers 429; else ≥ 85 % used. Used is requests or tokens, whichever is nearer to its limit; above 100 where a full bucket was emptied, too.",
    "",
    table(head, rows),
    "",
    `${good} of ${results.length} cells pass.`,
    "",
  ].join("\n");
}
