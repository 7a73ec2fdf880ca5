package meta

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// Names inside a store's directory. Part of the format.
const (
	LockName   = "LOCK" // byte-range locks, see lock_linux.go
	MetaName   = "meta" // Pebble
	DataName   = "data" // block files
	TempName   = "tmp"  // scratch of a writer; swept when the next one opens
	FileSuffix = ".gsb"
)

// DataFile returns the name and header id of the file that version makes for
// base, such as "topology-000001.gsb". Both are functions of the arguments
// alone, so that a repeated ingest makes identical files.
func DataFile(base string, version uint64) (name string, id uint64) {
	name = fmt.Sprintf("%s-%06d%s", base, version, FileSuffix)
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return name, h.Sum64()
}

// ValidFileName reports whether name is a plain file name that a manifest may use.
func ValidFileName(name string) bool {
	return strings.HasSuffix(name, FileSuffix) && len(name) > len(FileSuffix) && len(name) <= 200 &&
		!strings.ContainsAny(name, "/\\\x00") && name[0] != '.'
}
