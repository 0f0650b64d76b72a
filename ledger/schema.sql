-- What the ledger keeps. Version 1. Times: milliseconds since the epoch; spans: microseconds unless named otherwise;
-- money: nano-USD. NULL is "not known", never zero. Compiled into the executable (ledger/schema.cpp.in).

CREATE TABLE calls (
  id TEXT PRIMARY KEY,                -- UUIDv7: in the order in which they came.
  state INTEGER NOT NULL,             -- 0 open, 1 ended, 2 outcome unknown (found open at a start).
  began_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  tenant TEXT NOT NULL, lane INTEGER NOT NULL, run_id TEXT NOT NULL, queue TEXT NOT NULL, labels TEXT NOT NULL,
  route TEXT NOT NULL, upstream TEXT NOT NULL, dialect TEXT NOT NULL, operation TEXT NOT NULL,
  method TEXT NOT NULL, path TEXT NOT NULL, model TEXT NOT NULL, stream INTEGER NOT NULL, sdk_retry INTEGER NOT NULL,
  idempotency_key TEXT NOT NULL,
  outcome TEXT, status INTEGER, class TEXT, reason TEXT, attempts INTEGER NOT NULL, cost_nano INTEGER,
  waits TEXT,                         -- {"queue":12,…} of those that were waited for, in microseconds.
  first_content_us INTEGER, duration_us INTEGER, bytes_in INTEGER, bytes_out INTEGER,
  once TEXT, origin TEXT, saved_nano INTEGER
) WITHOUT ROWID;
CREATE INDEX calls_by_run ON calls(tenant, run_id) WHERE run_id <> '';
-- An open attempt is always one of an open call (one of unknown outcome may also be of one that a bug of ours ended).
CREATE INDEX calls_open ON calls(id) WHERE state = 0;
-- They ended when they were found, however long after their begin.
CREATE INDEX calls_unknown ON calls(id) WHERE state = 2;

CREATE TABLE attempts (
  call_id TEXT NOT NULL, number INTEGER NOT NULL,
  state INTEGER NOT NULL,             -- As calls.state.
  began_ms INTEGER NOT NULL, ended_ms INTEGER,
  upstream TEXT NOT NULL, credential TEXT NOT NULL, model TEXT NOT NULL, model_answered TEXT,
  status INTEGER, class TEXT, rule TEXT, code TEXT, detail TEXT, fingerprint TEXT, next TEXT,
  possibly_billed INTEGER NOT NULL,
  waited_before_ms INTEGER, waited_for TEXT, hint_ms INTEGER, took_us INTEGER, provider_request_id TEXT,
  input INTEGER, cached_input INTEGER, cache_write_5m INTEGER, cache_write_1h INTEGER, output INTEGER, reasoning INTEGER,
  tokens_from TEXT,                   -- "reported", "unknown" (it may have used some), "none" (it used none).
  billed TEXT,                        -- {"web_searches":2,…}: quantities besides tokens.
  stated_usd TEXT, service_tier TEXT, speed TEXT, inference_geo TEXT,
  cost_nano INTEGER, cost_source TEXT, cost_tier TEXT, prices TEXT,
  reserved_nano INTEGER, charged_nano INTEGER,
  PRIMARY KEY (call_id, number)
) WITHOUT ROWID;

-- Sums of attempts by the quarter of an hour in which they ended; calls and answers count where the call ended.
CREATE TABLE spend_by_period (
  slot INTEGER NOT NULL,              -- Milliseconds since the epoch, of the quarter's begin.
  tenant TEXT NOT NULL, upstream TEXT NOT NULL, model TEXT NOT NULL, lane INTEGER NOT NULL, queue TEXT NOT NULL,
  calls INTEGER NOT NULL DEFAULT 0, answered INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
  input INTEGER NOT NULL DEFAULT 0, cached_input INTEGER NOT NULL DEFAULT 0, cache_write INTEGER NOT NULL DEFAULT 0,
  output INTEGER NOT NULL DEFAULT 0, reasoning INTEGER NOT NULL DEFAULT 0,
  cost_nano INTEGER NOT NULL DEFAULT 0, retry_nano INTEGER NOT NULL DEFAULT 0, failed_nano INTEGER NOT NULL DEFAULT 0,
  possibly_billed INTEGER NOT NULL DEFAULT 0, possibly_billed_nano INTEGER NOT NULL DEFAULT 0,
  unknown INTEGER NOT NULL DEFAULT 0, unpriced INTEGER NOT NULL DEFAULT 0, estimated_nano INTEGER NOT NULL DEFAULT 0,
  charged_nano INTEGER NOT NULL DEFAULT 0, saved_nano INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (slot, tenant, upstream, model, lane, queue)
) WITHOUT ROWID;

CREATE TABLE spend_by_run (
  tenant TEXT NOT NULL, run_id TEXT NOT NULL, charged_nano INTEGER NOT NULL, last_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, run_id)
) WITHOUT ROWID;
CREATE INDEX spend_by_run_last ON spend_by_run(last_ms);

CREATE TABLE idempotency (
  scope BLOB PRIMARY KEY,
  fingerprint BLOB NOT NULL, key TEXT NOT NULL, tenant TEXT NOT NULL,
  state INTEGER NOT NULL,             -- 0 claimed, 1 stored, 2 outcome unknown.
  call_id TEXT NOT NULL, claimed_ms INTEGER NOT NULL, lease_until_ms INTEGER,
  expires_ms INTEGER, used_ms INTEGER, give_once INTEGER NOT NULL DEFAULT 0,
  status INTEGER, stream INTEGER, cost_nano INTEGER,
  bytes INTEGER NOT NULL DEFAULT 0,   -- Of body and row as they count against idempotency.max_bytes.
  -- Head and body (ledger/pack.h), sealed where a key is set; NULL: not on disk. The last column, since whatever
  -- stood behind it would be read through all of its pages.
  body BLOB
);
CREATE INDEX idempotency_key ON idempotency(key);
CREATE INDEX idempotency_expires ON idempotency(expires_ms) WHERE expires_ms IS NOT NULL;
CREATE INDEX idempotency_used ON idempotency(used_ms) WHERE state = 1;

-- The youngest is never removed, so that no number is given twice.
CREATE TABLE events (
  seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL,
  type TEXT NOT NULL, tenant TEXT NOT NULL, data TEXT NOT NULL
);
CREATE INDEX events_by_tenant ON events(tenant, seq);

CREATE TABLE pauses (what TEXT NOT NULL, name TEXT NOT NULL, until_ms INTEGER, PRIMARY KEY (what, name)) WITHOUT ROWID;
CREATE TABLE grants (
  seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, tenant TEXT NOT NULL, period TEXT NOT NULL, run_id TEXT NOT NULL,
  amount_nano INTEGER NOT NULL
);
CREATE INDEX grants_by_run ON grants(tenant, run_id) WHERE run_id <> '';

-- How far retention has come: of what was removed from a table, the latest end.
CREATE TABLE removed (what TEXT PRIMARY KEY, until_ms INTEGER NOT NULL) WITHOUT ROWID;

-- What finally failed (ledger/letters.h). A letter's id is that of the call that failed first; its requests, its
-- history stand apart, so that a list reads little.
CREATE TABLE dead_letters (
  id TEXT PRIMARY KEY,
  scope BLOB NOT NULL,
  state INTEGER NOT NULL,             -- 0 open, 1 resolved, 2 discarded.
  arrived_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL, ended_ms INTEGER,
  expires_ms INTEGER NOT NULL,        -- As retention was when it arrived.
  retention_ms INTEGER NOT NULL,      -- Its queue's; 0: by store.retention.dead_letters.
  tenant TEXT NOT NULL, queue TEXT NOT NULL, lane TEXT NOT NULL, run_id TEXT NOT NULL, labels TEXT NOT NULL,
  key TEXT NOT NULL, run TEXT NOT NULL, route TEXT NOT NULL, upstream TEXT NOT NULL, model TEXT NOT NULL,
  operation TEXT NOT NULL, class TEXT NOT NULL, code TEXT NOT NULL, fingerprint TEXT NOT NULL, cause_group TEXT NOT NULL,
  cause TEXT NOT NULL, advice TEXT NOT NULL, version TEXT NOT NULL,
  call_id TEXT NOT NULL,              -- Of the last failure, and its status.
  status INTEGER NOT NULL, failures INTEGER NOT NULL, cost_nano INTEGER NOT NULL,
  revision INTEGER NOT NULL,          -- The newest of its requests.
  payload INTEGER NOT NULL,           -- 0 kept, 1 left out, 2 no room.
  bytes INTEGER NOT NULL,             -- Of all revisions, as stored.
  callers_key INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX dead_letters_open ON dead_letters(scope) WHERE state = 0;
-- Groups of tens of thousands are counted from this alone (state is in it, since else the row would be looked up).
CREATE INDEX dead_letters_groups ON dead_letters(cause_group, tenant, queue, class, model, arrived_ms, last_ms,
                                                 cost_nano, bytes, state) WHERE state = 0;
CREATE INDEX dead_letters_expiry ON dead_letters(expires_ms);
CREATE INDEX dead_letters_arrival ON dead_letters(arrived_ms) WHERE retention_ms = 0;
CREATE INDEX dead_letters_by_run_id ON dead_letters(run_id) WHERE run_id <> '';
CREATE INDEX dead_letters_by_key ON dead_letters(key) WHERE key <> '';

CREATE TABLE letter_steps (
  letter TEXT NOT NULL, number INTEGER NOT NULL, at_ms INTEGER NOT NULL,
  what TEXT NOT NULL,                 -- "failed", "edited", "resolved", "discarded".
  call_id TEXT NOT NULL, class TEXT NOT NULL,
  detail TEXT NOT NULL,               -- Of "failed" the attempts, a JSON array (ledger/call_detail.h).
  PRIMARY KEY (letter, number)
) WITHOUT ROWID;

-- Revision 0 is the request as it came. Bodies as ledger/box.h keeps them.
CREATE TABLE letter_requests (
  letter TEXT NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (letter, revision)
);

CREATE TABLE replays (
  id TEXT PRIMARY KEY,
  state INTEGER NOT NULL,             -- 0 planned, 1 running, 2 paused, 3 stopped, 4 done, 5 cancelled.
  created_ms INTEGER NOT NULL, started_ms INTEGER, ended_ms INTEGER,
  who TEXT NOT NULL, reason TEXT NOT NULL, tenant TEXT NOT NULL, filter TEXT NOT NULL, limits TEXT NOT NULL,
  digest TEXT NOT NULL, why TEXT NOT NULL, approved_by TEXT NOT NULL, canary_passed INTEGER NOT NULL,
  -- Sums over its items, kept with them.
  waiting INTEGER NOT NULL, running INTEGER NOT NULL, resolved INTEGER NOT NULL, dead_again INTEGER NOT NULL,
  skipped INTEGER NOT NULL, cost_nano INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX replays_created ON replays(created_ms);

CREATE TABLE replay_items (
  replay TEXT NOT NULL, letter TEXT NOT NULL, revision INTEGER NOT NULL,
  state INTEGER NOT NULL,             -- 0 waiting, 1 running, 2 resolved, 3 dead again, 4 skipped.
  why TEXT NOT NULL, call_id TEXT NOT NULL, cost_nano INTEGER NOT NULL,
  PRIMARY KEY (replay, letter)
) WITHOUT ROWID;
CREATE INDEX replay_items_to_do ON replay_items(letter) WHERE state < 2;

CREATE TABLE audit (
  seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, who TEXT NOT NULL, act TEXT NOT NULL, what TEXT NOT NULL,
  reason TEXT NOT NULL, count INTEGER NOT NULL
);

-- Work that was handed over (ledger/runs.h).
CREATE TABLE runs (
  id TEXT PRIMARY KEY,
  scope BLOB NOT NULL, fingerprint BLOB NOT NULL,
  state INTEGER NOT NULL,             -- 0 queued, 1 running, 2 succeeded, 3 failed, 4 dead, 5 cancelled.
  tenant TEXT NOT NULL, queue TEXT NOT NULL, lane TEXT NOT NULL, run_id TEXT NOT NULL, labels TEXT NOT NULL,
  route TEXT NOT NULL, model TEXT NOT NULL, key TEXT NOT NULL, ordering_key TEXT NOT NULL, version TEXT NOT NULL,
  webhook TEXT NOT NULL,
  created_ms INTEGER NOT NULL, not_before_ms INTEGER NOT NULL, deadline_ms INTEGER,
  fence INTEGER NOT NULL DEFAULT 0,   -- Grows with each taking.
  starts INTEGER NOT NULL DEFAULT 0, crashes INTEGER NOT NULL DEFAULT 0,
  lease_ms INTEGER, lease_until_ms INTEGER,
  started_ms INTEGER, ended_ms INTEGER,
  class TEXT NOT NULL DEFAULT '', why TEXT NOT NULL DEFAULT '',
  call_id TEXT NOT NULL DEFAULT '',   -- Of the last call.
  status INTEGER NOT NULL DEFAULT 0, stream INTEGER NOT NULL DEFAULT 0,
  cost_nano INTEGER,                  -- Of all its calls of which it is known.
  has_answer INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE UNIQUE INDEX runs_scope ON runs(scope);
CREATE INDEX runs_queued ON runs(queue, id, not_before_ms, created_ms, state) WHERE state = 0;
CREATE INDEX runs_ordered ON runs(queue, tenant, ordering_key, id, state) WHERE ordering_key <> '' AND state < 2;
CREATE INDEX runs_later ON runs(not_before_ms) WHERE state = 0;
CREATE INDEX runs_running ON runs(queue, lease_until_ms, lease_ms, state) WHERE state = 1;
CREATE INDEX runs_ended ON runs(ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX runs_by_run_id ON runs(run_id) WHERE run_id <> '';
CREATE INDEX runs_by_key ON runs(key) WHERE key <> '';

-- Apart from runs, so that a lease is not renewed through pages of text.
CREATE TABLE run_bodies (
  run TEXT NOT NULL,
  what INTEGER NOT NULL,              -- 0 request, 1 answer.
  body BLOB NOT NULL, PRIMARY KEY (run, what)
);

CREATE TABLE webhooks (
  run TEXT PRIMARY KEY,
  state INTEGER NOT NULL,             -- 0 waiting, 1 told, 2 dead.
  tenant TEXT NOT NULL, url TEXT NOT NULL, next_ms INTEGER NOT NULL, attempts INTEGER NOT NULL,
  body BLOB NOT NULL                  -- Empty once nobody has to tell it any more.
);
CREATE INDEX webhooks_due ON webhooks(next_ms) WHERE state = 0;
