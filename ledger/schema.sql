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
