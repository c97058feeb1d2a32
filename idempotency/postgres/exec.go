package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// exec executes a statement that is a transaction of its own.
func exec(ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) (pgconn.CommandTag, error) {
	for {
		tag, err := pool.Exec(ctx, sql, args...)
		if !wasRaced(err) || ctx.Err() != nil {
			return tag, err
		}
	}
}

// wasRaced reports whether a transaction failed only for another one beside it, as it may where the database's default is
// an isolation level above READ COMMITTED.
func wasRaced(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01") // serialization failure, deadlock
}

// wasCutOff reports whether err is of the connection, and not the server's answer to a statement.
func wasCutOff(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true
	}
	severity := cmp.Or(pg.SeverityUnlocalized, pg.Severity)
	return severity == "FATAL" || severity == "PANIC"
}
