package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations has the SQL that [Store.Migrate] runs, a file for each version of the tables: 0001_create.sql and so on. They
// are for teams that have a migration tool of their own, and stand in the repository beside this package. The names
// in them are the default ones, without a schema. Each file enters its version into the version table, so Migrate can be
// called all the same: it finds nothing to do.
var Migrations fs.FS = func() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err)
	}
	return sub
}()

// Migrate creates the store's tables, or brings them up to this package's version. It is safe to call at every start of
// every process: they wait for each other, each version is applied once and whole, and if there is nothing to do, it
// needs no more than to read. Tables of a later version are left as they are: versions add, they do not break what an
// earlier program does, so that old and new can run side by side.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.migrate(ctx); err != nil {
		return fmt.Errorf("postgres: Migrate: %w", err)
	}
	return nil
}

func (s *Store) migrate(ctx context.Context) error {
	names, err := fs.Glob(Migrations, "*.sql") // in order
	if err != nil {
		return err
	}
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		version, err := s.version(ctx, tx)
		if err != nil || version >= len(names) {
			return err
		}
		if err := s.lock(ctx, tx); err != nil {
			return err
		}
		if version, err = s.version(ctx, tx); err != nil {
			return err
		}
		for ; version < len(names); version++ {
			text, err := fs.ReadFile(Migrations, names[version])
			if err != nil {
				return err
			}
			table := strings.ReplaceAll(s.table, `"`, `""`)
			if _, err := tx.Exec(ctx, strings.ReplaceAll(string(text), defaultTable, table)); err != nil {
				return fmt.Errorf("%s: %w", names[version], err)
			}
		}
		return nil
	})
}

// tableSQL reads the catalogue, and not by to_regclass: that may answer from a cache which does not yet know what another
// transaction committed while this one waited for it.
const tableSQL = `
SELECT EXISTS (
	SELECT FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
	WHERE relname = $1 AND CASE WHEN $2 = '' THEN nspname = ANY (current_schemas(false)) ELSE nspname = $2 END
)`

// version returns the version that the tables have; 0 if there are none.
func (s *Store) version(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var exists bool
	if err := tx.QueryRow(ctx, tableSQL, s.table+"_version", s.schema).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM "+s.name("_version")).Scan(&version)
	return version, err
}

// lock waits for any other Migrate of the same schema. In the rest of the transaction the schema is the first of the
// search_path.
func (s *Store) lock(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "saferetry "+s.schema)
	if err != nil || s.schema == "" {
		return err
	}
	var exists bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", s.schema).Scan(&exists); err != nil {
		return err
	}
	if !exists { // IF NOT EXISTS asks for the right to create one, also where there is one
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+quoted(s.schema)); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, "SET LOCAL search_path = "+quoted(s.schema))
	return err
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
