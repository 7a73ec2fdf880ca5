// Package formats has an ingest.Source for every form in which users keep
// graphs: numpy folders, OGB's raw folders, edge lists, knowledge-graph
// triples, raw binary pairs. docs/formats.md shows each with a command.
//
// Each form has a row of the table in open.go: what recognises it, and what opens it. A further one is a file of package
// layouts, or of the package that reads its kind of file (numpy, text, parquet, tables), that row, a seed of a fuzz target
// and its section of docs/formats.md. All of them put the source together from the streams of package parts.
//
// [Open] detects the format from what the path holds, or takes the one named.
// Opening reads headers and small text files (class names) only; data is
// streamed, in pieces bounded by ingest.Env, by the ingester. Nothing here
// trusts its input: shapes are compared with file sizes before anything is
// allocated, and errors are [*ingest.InputError]s that name file and position.
package formats
