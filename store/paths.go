package store

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// Names inside a store's directory. Part of the format.
const (
	lockName   = "LOCK" // byte-range locks, see lock.go
	metaName   = "meta" // Pebble
	dataName   = "data" // block files
	tempName   = "tmp"  // scratch of a writer; swept when the next one opens
	fileSuffix = ".gsb"
)

// dataFile returns the name and header id of the file that version makes for
// base, such as "topology-000001.gsb". Both are functions of the arguments
// alone, so that a repeated ingest makes identical files.
func dataFile(base string, version uint64) (name string, id uint64) {
	name = fmt.Sprintf("%s-%06d%s", base, version, fileSuffix)
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return name, h.Sum64()
}

// validFileName reports whether name is a plain file name that a manifest may use.
func validFileName(name string) bool {
	return strings.HasSuffix(name, fileSuffix) && len(name) > len(fileSuffix) && len(name) <= 200 &&
		!strings.ContainsAny(name, "/\\\x00") && name[0] != '.'
}
