-- Version 1 of the tables of saferetry's PostgreSQL store, under their default
-- names and in the first schema of the search_path. It needs PostgreSQL 12 or
-- later. Store.Migrate runs this very file, under the names it was given.

-- One row for each operation: who asked for what under which key, and what was
-- answered. The parts are text to be read by people; a byte that is no UTF-8 is
-- written \xNN, and a backslash \\.
CREATE TABLE "idempotency_keys" (
    id            bytea PRIMARY KEY,     -- SHA-256 of scope, method, path and key, each with its length
    scope         text NOT NULL,
    method        text NOT NULL,
    path          text NOT NULL,
    key           text NOT NULL,
    fingerprint   bytea NOT NULL,        -- what tells two requests under one key apart
    token         text NOT NULL,         -- of the claim that holds, or completed, the operation
    claimed_at    timestamptz NOT NULL,
    lease_ends_at timestamptz NOT NULL,  -- counts while the operation is in progress
    expires_at    timestamptz NOT NULL,  -- counts from when it is completed
    status        smallint,              -- NULL while the operation is in progress
    not_stored    boolean,               -- completed, but the answer cannot be had again
    header        json,
    body          bytea
);

-- For the sweeper. It covers all rows: with a WHERE on the status, completing a
-- record would have to touch every index of the table (no HOT update), which
-- costs more than what the index would be smaller by.
CREATE INDEX "idempotency_keys_expires_at" ON "idempotency_keys" (expires_at);

-- One row for each call to a processor that cannot join the transaction,
-- committed before the call is made.
CREATE TABLE "idempotency_keys_intents" (
    id            bytea PRIMARY KEY,     -- SHA-256 of scope, method, path, key and step, each with its length
    derived_key   text NOT NULL UNIQUE,  -- what the processor is sent as its idempotency key
    step          text NOT NULL,
    scope         text NOT NULL,
    method        text NOT NULL,
    path          text NOT NULL,
    key           text NOT NULL,
    fingerprint   bytea NOT NULL,
    attempts      integer NOT NULL,
    first_sent_at timestamptz NOT NULL,
    last_sent_at  timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,  -- counts from when it is settled
    settled_at    timestamptz,           -- NULL while it is not known whether the effect took place
    answer        json                   -- NULL when settled: there was no effect
);

CREATE INDEX "idempotency_keys_intents_pending" ON "idempotency_keys_intents" (last_sent_at) WHERE settled_at IS NULL;
CREATE INDEX "idempotency_keys_intents_expires_at" ON "idempotency_keys_intents" (expires_at) WHERE settled_at IS NOT NULL;

CREATE TABLE "idempotency_keys_version" (
    version    integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO "idempotency_keys_version" (version) VALUES (1);
