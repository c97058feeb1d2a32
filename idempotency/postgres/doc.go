// Package postgres keeps the records of package idempotency in PostgreSQL, next to what handlers write: the key's record and
// the handler's writes are committed in one transaction, together or not at all. It is the store for an API that runs
// as more than one process, or whose effects must not happen twice when one dies.
package postgres
