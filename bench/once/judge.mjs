// What must hold at the end: callers' answers against the ledger, the ledger against the provider's own count, and both
// against the kills.
import { ask } from "./books.mjs";

const sum = (rows, of) => rows.reduce((total, row) => total + (of(row) ?? 0), 0);

function byRun(rows, of) {
  const map = new Map();
  for (const row of rows) {
    const key = of(row);
    if (!map.has(key)) map.set(key, []);
    map.get(key).push(row);
  }
  return map;
}

const kSums = ["attempts", "input", "cached_input", "cache_write", "output", "reasoning", "cost_nano", "charged_nano", "possibly_billed", "possibly_billed_nano", "unknown"];

/// "12.345678901" → nano-USD.
export function nanoOf(usd) {
  const [whole, part = ""] = usd.split(".");
  return Number(whole) * 1e9 + Number(part.padEnd(9, "0"));
}

/// { file, jobs, executions, refused, kills and restarted (ms since the epoch), inFlightAtKills, budgets, stuck, leaseMs,
/// again: { replayed, bought }, ownEnds, bugs }
export function judge(run) {
  const { file, jobs, executions } = run;
  const gates = [];
  const gate = (what, pass, told) => gates.push({ what, pass, told: String(told) });
  const one = (sql) => Object.values(ask(file, sql)[0])[0] ?? 0;

  // The callers.
  const answered = jobs.filter(({ answers }) => answers.length > 0);
  gate("jobs that ended answered", answered.length === jobs.length, `${answered.length} of ${jobs.length}`);
  const nonces = answered.map(({ answers }) => new Set(answers.map(({ nonce }) => nonce)).size);
  const answers = sum(jobs, (job) => job.answers.length);
  gate("answers of one key bear one nonce", nonces.every((count) => count === 1), `${answers} answers, ${nonces.filter((count) => count > 1).length} keys with more than one nonce`);

  // The rows.
  const attempts = ask(
    file,
    `SELECT a.*, c.run_id, c.outcome, c.once, c.state AS call_state, c.stream FROM attempts a JOIN calls c ON c.id = a.call_id`,
  );
  const good = attempts.filter(({ state, class: cls }) => state === 1 && cls === "none");
  const unknown = attempts.filter(({ state }) => state === 2);
  const others = attempts.filter(({ state, class: cls }) => state === 1 && cls !== "none");
  const goodByRun = byRun(good, (row) => row.run_id);
  const paid = jobs.map(({ run: id }) => goodByRun.get(id)?.length ?? 0);
  gate("answered executions per key = 1", paid.every((count) => count === 1), `${paid.filter((count) => count === 1).length} once, ${paid.filter((count) => count > 1).length} more often, ${paid.filter((count) => count === 0).length} never`);
  const given = jobs.every(({ run: id, answers: all }) => all.every(({ execution }) => goodByRun.get(id)?.some((row) => row.provider_request_id === execution)));
  gate("what callers got is what the ledger says was answered", given, given ? "all" : "not all");

  // The provider.
  const finished = executions.filter(({ finished: yes }) => yes);
  const byId = new Map(executions.map((execution) => [execution.id, execution]));
  const extra = finished.length - new Set(finished.map(({ job }) => job)).size;
  gate("extra executions ≤ attempts in flight at the kills", extra <= unknown.length, `${extra} ≤ ${unknown.length} (the provider counted ${run.inFlightAtKills} at them)`);
  const rowsByRun = byRun(attempts, (row) => row.run_id);
  const seen = new Set(attempts.map((row) => row.provider_request_id).filter(Boolean));
  let untraced = 0;
  let asUnknown = 0;
  let asFailed = 0;
  for (const [id, all] of byRun(executions, ({ job }) => job)) {
    const rows = rowsByRun.get(id) ?? [];
    const lost = all.filter((execution) => !seen.has(execution.id)).length;
    const hidden = rows.filter((row) => row.state === 2).length;
    const failed = rows.filter((row) => row.state === 1 && row.class !== "none" && !row.provider_request_id).length;
    asUnknown += Math.min(lost, hidden);
    asFailed += Math.min(Math.max(0, lost - hidden), failed);
    untraced += Math.max(0, lost - hidden - failed);
  }
  const failedWithId = others.filter((row) => byId.has(row.provider_request_id)).length;
  gate("each execution has its row", untraced === 0, `of ${executions.length}: ${good.length} answered, ${asUnknown} outcome unknown, ${failedWithId + asFailed} failed or cancelled, ${untraced} without one`);
  const strangers = unknown.filter((row) => !run.kills.some((at) => at >= row.began_ms - 1 && at <= row.ended_ms + 1));
  gate("each unknown outcome was under way at a kill", strangers.length === 0, `${unknown.length} rows, ${strangers.length} without a kill`);

  const foreign = good.filter((row) => !byId.get(row.provider_request_id)?.finished);
  gate("answered attempts' request ids are the provider's", foreign.length === 0, `${good.length} ids, ${foreign.length} that it did not finish`);
  const known = good.filter((row) => byId.has(row.provider_request_id));
  const tokens = ["input", "cached_input", "output", "reasoning"].map((name) => {
    const field = name === "cached_input" ? "cached" : name;
    return { name, ours: sum(known, (row) => row[name]), its: sum(known, (row) => byId.get(row.provider_request_id)[field]), wrong: known.filter((row) => row[name] !== byId.get(row.provider_request_id)[field]).length };
  });
  gate("their tokens are the provider's own count", foreign.length === 0 && tokens.every(({ ours, its, wrong }) => ours === its && wrong === 0), tokens.map(({ name, ours, its }) => `${name} ${ours}${ours === its ? "" : ` instead of ${its}`}`).join(", "));

  // Money.
  const totals = {
    attempts: attempts.length,
    input: sum(attempts, (row) => row.input),
    cached_input: sum(attempts, (row) => row.cached_input),
    cache_write: sum(attempts, (row) => (row.cache_write_5m ?? 0) + (row.cache_write_1h ?? 0)),
    output: sum(attempts, (row) => row.output),
    reasoning: sum(attempts, (row) => row.reasoning),
    cost_nano: sum(attempts, (row) => row.cost_nano),
    charged_nano: sum(attempts, (row) => row.charged_nano),
    possibly_billed: sum(attempts, (row) => row.possibly_billed),
    possibly_billed_nano: sum(attempts, (row) => (row.possibly_billed ? row.charged_nano : 0)),
    unknown: attempts.filter((row) => row.tokens_from === "unknown").length,
  };
  const periods = ask(file, `SELECT ${kSums.map((name) => `sum(${name}) AS ${name}`).join(", ")} FROM spend_by_period`)[0];
  const wrong = kSums.filter((name) => (periods[name] ?? 0) !== totals[name]);
  gate("spend_by_period = the attempts", wrong.length === 0, wrong.length === 0 ? `${kSums.length} sums` : wrong.map((name) => `${name} ${periods[name]} instead of ${totals[name]}`).join(", "));
  const calls = ask(file, `SELECT count(*) AS calls, sum(outcome = 'answered') AS answered FROM calls`)[0];
  const told = ask(file, `SELECT sum(calls) AS calls, sum(answered) AS answered FROM spend_by_period`)[0];
  gate("… and the calls", calls.calls === told.calls && calls.answered === told.answered, `${told.calls} calls, ${told.answered} answered${calls.calls === told.calls && calls.answered === told.answered ? "" : `; in rows ${calls.calls} and ${calls.answered}`}`);
  const runs = ask(file, `SELECT run_id, charged_nano FROM spend_by_run`);
  const unequal = runs.filter(({ run_id: id, charged_nano: nano }) => nano !== sum(rowsByRun.get(id) ?? [], (row) => row.charged_nano));
  const missing = [...rowsByRun.keys()].filter((id) => !runs.some(({ run_id: other }) => other === id));
  gate("spend_by_run = the attempts", unequal.length === 0 && missing.length === 0, `${runs.length} runs, ${unequal.length + missing.length} wrong`);
  for (const period of ["day", "month"]) {
    const budget = run.budgets.find((row) => row.tenant === "bench" && row.period === period);
    const from = new Date(run.restarted);
    from.setUTCHours(0, 0, 0, 0);
    if (period === "month") from.setUTCDate(1);
    const rows = sum(attempts, (row) => (row.ended_ms >= from.getTime() ? row.charged_nano : 0));
    const spent = budget ? nanoOf(budget.spent_usd) : null;
    gate(`budget of the ${period} after the last start = its rows`, spent === rows, `${spent} = ${rows} nano-USD`);
  }

  // What must not be left behind.
  const held = ask(file, "SELECT count(*) AS calls, max(ended_ms) - min(began_ms) AS ms FROM calls WHERE reason = 'key_held' GROUP BY run_id");
  const longest = Math.max(0, ...held.map(({ ms }) => ms));
  gate("no claim is stuck beyond its lease", run.stuck === 0 && longest <= run.leaseMs, `${run.stuck} held when all was done, ${sum(held, ({ calls: count }) => count)} calls refused for one, for ${longest} ms at most`);
  const openRows = one("SELECT (SELECT count(*) FROM calls WHERE state = 0) + (SELECT count(*) FROM attempts WHERE state = 0)");
  const torn = one(
    `SELECT (SELECT count(*) FROM calls c WHERE c.attempts <> (SELECT count(*) FROM attempts a WHERE a.call_id = c.id))
          + (SELECT count(*) FROM attempts a WHERE NOT EXISTS (SELECT 1 FROM calls c WHERE c.id = a.call_id))
          + (SELECT count(*) FROM attempts a JOIN calls c ON c.id = a.call_id WHERE c.state = 1 AND a.state <> 1)
          + (SELECT count(*) FROM idempotency WHERE state = 1 AND (body IS NULL OR status IS NULL))`,
  );
  const check = one("PRAGMA integrity_check");
  gate("no row is torn or still open", openRows === 0 && torn === 0 && check === "ok", `${openRows} open, ${torn} torn, integrity_check: ${check}`);
  gate("each key once more: stored answers, nothing bought", run.again.bought === 0 && run.again.replayed >= jobs.length, `${run.again.replayed} replayed, ${run.again.bought} bought`);
  gate("callgate ended only when it was killed", run.ownEnds.length === 0, run.ownEnds.length === 0 ? `${run.kills.length} kills` : run.ownEnds.join("; "));
  gate("nothing of our own making failed a job", run.bugs.length === 0, run.bugs.length === 0 ? "no garbled answer, 422 or 500" : run.bugs.join(", "));

  const figures = {
    executions: executions.length,
    finished: finished.length,
    extra,
    unknown: unknown.length,
    inFlightAtKills: run.inFlightAtKills,
    answered: good.length,
    failedOrCancelled: others.length,
    calls: calls.calls,
    once: Object.fromEntries(ask(file, "SELECT coalesce(once, 'none') AS once, count(*) AS count FROM calls GROUP BY 1").map(({ once, count }) => [once, count])),
    outcomes: Object.fromEntries(ask(file, "SELECT coalesce(outcome, 'unknown') AS outcome, count(*) AS count FROM calls GROUP BY 1").map(({ outcome, count }) => [outcome, count])),
    ...ask(file, "SELECT sum(sdk_retry) AS sdkRetries, sum(reason = 'caller_gone') AS callerGone FROM calls")[0],
    possiblyBilled: totals.possibly_billed,
    chargedNano: totals.charged_nano,
    costNano: totals.cost_nano,
    refused: run.refused,
  };
  return { gates, figures };
}
