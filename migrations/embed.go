// Package migrations is the database schema as SQL files, embedded in the binary.
//
// They are applied in order by goose at every start. A file that has been released is never changed: the next
// change is the next file. There are no down migrations; the way back is a backup.
package migrations

import "embed"

// Files holds the migrations, NNNNN_name.sql.
//
//go:embed *.sql
var Files embed.FS
