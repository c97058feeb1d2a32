package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements are the store's SQL, with the tables' names filled in. Durations are passed in microseconds: not every
// way to execute a query knows Go's type. Time is the clock's, not the transaction's, wherever a statement may have
// waited for a lock.
type statements struct {
	insert, claim, renew, complete, finish, free, state string
	sweepKeys, sweepIntents                             string

	expireIntent, intend, held, record, refuse, recorded, pending, resolve string
}

func newStatements(c *config) statements {
	fill := strings.NewReplacer(
		"{keys}", c.name(""),
		"{intents}", c.name("_intents"),
		"{held}", "id = $1 AND token = $2 AND status IS NULL",
	).Replace
	return statements{
		insert:       fill(insertSQL),
		claim:        fill(claimSQL),
		renew:        fill(renewSQL),
		complete:     fill(completeSQL),
		finish:       fill(finishSQL),
		free:         fill(freeSQL),
		state:        fill(stateSQL),
		sweepKeys:    fill(sweepKeysSQL),
		sweepIntents: fill(sweepIntentsSQL),
		expireIntent: fill(expireIntentSQL),
		intend:       fill(intendSQL),
		held:         fill(heldSQL),
		record:       fill(recordSQL),
		refuse:       fill(refuseSQL),
		recorded:     fill(recordedSQL),
		pending:      fill(pendingSQL),
		resolve:      fill(resolveSQL),
	}
}

// name returns the quoted name of the table that has suffix.
func (c *config) name(suffix string) string {
	if c.schema == "" {
		return pgx.Identifier{c.table + suffix}.Sanitize()
	}
	return pgx.Identifier{c.schema, c.table + suffix}.Sanitize()
}

// insertSQL wins a key that has no record. If there is one it gives no row, and neither locks nor writes.
//
// A claim need not be on the disk before its handler runs: what the handler commits is written after it. So the commit
// of this statement does not wait for the disk.
const insertSQL = `
INSERT INTO {keys} (id, scope, method, path, key, fingerprint, token, claimed_at, lease_ends_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7,
	CASE WHEN set_config('synchronous_commit', 'off', true) = 'off' THEN clock_timestamp() END,
	clock_timestamp() + $8::bigint * interval '1 microsecond', clock_timestamp() + $9::bigint * interval '1 microsecond')
ON CONFLICT (id) DO NOTHING`

// claimSQL tells of the record that has the key, without locking it, or wins the key, also from a record that is to be
// taken over: one row, or none if another claim came between the two halves, and then it is to be asked again.
const claimSQL = `
WITH found AS (
	SELECT fingerprint, status, not_stored, header, body FROM {keys}
	WHERE id = $1 AND token <> $7 AND CASE WHEN status IS NULL THEN lease_ends_at ELSE expires_at END > clock_timestamp()
), won AS (
	INSERT INTO {keys} AS k
		(id, scope, method, path, key, fingerprint, token, claimed_at, lease_ends_at, expires_at)
	SELECT $1, $2::text, $3::text, $4::text, $5::text, $6::bytea, $7::text, at,
		at + $8::bigint * interval '1 microsecond', at + $9::bigint * interval '1 microsecond'
	FROM (SELECT clock_timestamp() AS at, set_config('synchronous_commit', 'off', true)) AS now
	WHERE NOT EXISTS (SELECT FROM found)
	ON CONFLICT (id) DO UPDATE SET
		fingerprint = EXCLUDED.fingerprint, token = EXCLUDED.token, claimed_at = EXCLUDED.claimed_at,
		lease_ends_at = EXCLUDED.lease_ends_at, expires_at = EXCLUDED.expires_at,
		status = NULL, not_stored = NULL, header = NULL, body = NULL
	WHERE CASE WHEN k.status IS NULL THEN k.lease_ends_at ELSE k.expires_at END <= clock_timestamp()
		OR k.token = EXCLUDED.token AND k.status IS NULL
	RETURNING 1
)
SELECT NULL::bytea AS fingerprint, NULL::smallint, NULL::boolean, NULL::json, NULL::bytea FROM won
UNION ALL
SELECT fingerprint, status, not_stored, header, CASE WHEN fingerprint = $6 THEN body END FROM found`

const renewSQL = `
UPDATE {keys} SET lease_ends_at = clock_timestamp() + $3::bigint * interval '1 microsecond' WHERE {held}`

// completeSQL is the last statement but COMMIT of the handler's transaction, and in the same round trip. If the claim is
// lost it fails, by a division, for the COMMIT not to be carried out.
const completeSQL = `
WITH done AS (
	UPDATE {keys} SET status = $3::smallint, not_stored = $4::boolean, header = $5::text::json, body = $6::bytea
	WHERE {held} RETURNING 1
)
SELECT 1 / count(*) FROM done`

// divisionByZero is the error of completeSQL for a claim that is lost.
const divisionByZero = "22012"

// finishSQL is completeSQL for an operation without a transaction.
const finishSQL = `
UPDATE {keys} SET status = $3::smallint, not_stored = $4::boolean, header = $5::text::json, body = $6::bytea
WHERE {held}`

// freeSQL waits for a transaction that is about to complete the record. What it finds afterwards is the truth.
const freeSQL = `
DELETE FROM {keys} USING (SELECT set_config('synchronous_commit', 'off', true)) AS now WHERE {held}`

const stateSQL = `SELECT FROM {keys} WHERE id = $1 AND token = $2 AND status IS NOT NULL`

// The sweeps take what nobody else has locked, so many processes may sweep at once. The clock is read once, for the index
// to be of use.
const sweepKeysSQL = `
DELETE FROM {keys} USING (SELECT set_config('synchronous_commit', 'off', true)) AS now
WHERE id = ANY (ARRAY(
	SELECT id FROM {keys} WHERE expires_at <= now() AND (status IS NOT NULL OR lease_ends_at <= now())
	LIMIT $1::bigint FOR UPDATE SKIP LOCKED
))`

const sweepIntentsSQL = `
DELETE FROM {intents} USING (SELECT set_config('synchronous_commit', 'off', true)) AS now
WHERE id = ANY (ARRAY(
	SELECT id FROM {intents} WHERE settled_at IS NOT NULL AND expires_at <= now()
	LIMIT $1::bigint FOR UPDATE SKIP LOCKED
))`

// expireIntentSQL and intendSQL are sent together. An intent is made only under a claim that is still held. One that has
// no answer yet is sent again under its first key; one with an answer is not touched.
const expireIntentSQL = `
DELETE FROM {intents} WHERE id = $1 AND settled_at IS NOT NULL AND expires_at <= clock_timestamp()`

const intendSQL = `
INSERT INTO {intents} AS i (id, derived_key, step, scope, method, path, key, fingerprint,
	attempts, first_sent_at, last_sent_at, expires_at)
SELECT $3::bytea, $4::text, $5::text, scope, method, path, key, fingerprint, 1, at, at, expires_at
FROM {keys}, (SELECT clock_timestamp() AS at) AS now WHERE {held}
ON CONFLICT (id) DO UPDATE SET
	attempts = i.attempts + CASE WHEN i.answer IS NULL THEN 1 ELSE 0 END,
	last_sent_at = CASE WHEN i.answer IS NULL THEN EXCLUDED.last_sent_at ELSE i.last_sent_at END,
	settled_at = CASE WHEN i.answer IS NULL THEN NULL ELSE i.settled_at END,
	expires_at = EXCLUDED.expires_at
WHERE i.fingerprint = EXCLUDED.fingerprint
RETURNING derived_key, attempts, answer`

const heldSQL = `SELECT FROM {keys} WHERE {held}`

// recordSQL leaves an answer that is there as it is.
const recordSQL = `
UPDATE {intents} SET settled_at = clock_timestamp(), answer = $2::text::json WHERE id = $1 AND answer IS NULL`

const recordedSQL = `SELECT answer FROM {intents} WHERE id = $1`

// refuseSQL is not for an intent that has been sent again meanwhile.
const refuseSQL = `
UPDATE {intents} SET settled_at = clock_timestamp() WHERE id = $1 AND attempts = $2::integer AND answer IS NULL`

const pendingSQL = `
SELECT scope, method, path, key, step, derived_key, attempts, first_sent_at, last_sent_at FROM {intents}
WHERE settled_at IS NULL AND last_sent_at <= now() - $1::bigint * interval '1 microsecond' ORDER BY last_sent_at`

// resolveSQL keeps the answer for a day at least, should its operation have expired by now.
const resolveSQL = `
UPDATE {intents} SET settled_at = now(), answer = $2::text::json, expires_at = greatest(expires_at, now() + interval '1 day')
WHERE derived_key = $1 AND settled_at IS NULL`
