// Package formats has an ingest.Source for every form in which users keep
// graphs: numpy folders, OGB's raw folders, edge lists, knowledge-graph
// triples, raw binary pairs. docs/formats.md shows each with a command.
//
// [Open] detects the format from what the path holds, or takes the one named.
// Opening reads headers and small text files (class names) only; data is
// streamed, in pieces bounded by ingest.Env, by the ingester. Nothing here
// trusts its input: shapes are compared with file sizes before anything is
// allocated, and errors are [*ingest.InputError]s that name file and position.
package formats
