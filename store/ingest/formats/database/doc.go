// Package database reads a relational database as a graph: the rows of a table are nodes of the table's type, and each of a table's
// foreign keys is a relation from its rows to those that they name. A database is a folder of tables (CSV, TSV, Parquet), such as one of
// RelBench 3, an SQLite file, or what [Spool] copies of a PostgreSQL server.
//
// A [Schema] says what keys, times and columns are. It is read from the folder's manifest.yaml or schema.yaml, from what the SQLite file
// declares, from a file of the user's, or inferred from names and values; [Schema.Write] writes it as YAML to be edited.
//
// A node's id is TABLE:KEY. A key of several columns has its parts divided by bars; rows of a table without a key are numbered from 0. Where
// a table has a time column, its rows have a time, in whole seconds since 1970, rounded up: a row is never known before it was. The time
// stands in the node column TABLE.row_time and in each of the row's edges.
//
// Opening a database reads every table once, for the kinds of its columns. Afterwards tables are streamed, a batch of rows at a time.
package database
