package meta

import (
	"encoding/binary"
	"fmt"
)

// Every key in Pebble. Part of the format; never renumber or reuse a prefix.
// Numbers are big-endian so that keys sort by them.
//
//	format                      ASCII decimal: Format or FormatRuns
//	current                     u64: the newest committed version
//	v/ <u64 version>            Manifest as JSON; only versions that are still readable
//	h/ <u64 version>            VersionInfo as JSON; every version ever committed
//	d/ <u64 gen> <external id>  u64 internal id: dictionary entries of a generation
//	r/ <u64 number>             Run as JSON: the run history
//	t/ <name>                   TableRecord as JSON: an embedding table
//	k/ <name> 00 <u64 number>   Checkpoint as JSON
//	b/ <name> 00 <u64 number> <u32 i>  the checkpoint's i-th blob
//	n/ <u64 version> <kind> <u32 partition>  uvarints: how often runs of a kind visited each node of a partition; kept for
//	                            one version, may be missing
const (
	KeyFormat  = "format"
	KeyCurrent = "current"

	PrefixManifest   = "v/"
	PrefixHistory    = "h/"
	PrefixDictionary = "d/"
	PrefixRun        = "r/"
	PrefixTable      = "t/"
	PrefixCheckpoint = "k/"
	PrefixBlob       = "b/"
	PrefixVisits     = "n/"
)

// KindBytes is the length of the name of a kind of run in the keys of visits.
const KindBytes = 16

// Versions of the metadata that this build reads. A store has the first until a version is committed that the first cannot say.
const (
	Format     = "1"
	FormatRuns = "2" // columns of nodes may have the rows of one type alone, weights may be codes
)

func NumberKey(prefix string, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(prefix), n)
}

// DictionaryKey appends the key of an external id to dst.
func DictionaryKey(dst []byte, gen uint64, external []byte) []byte {
	dst = append(dst, PrefixDictionary...)
	dst = binary.BigEndian.AppendUint64(dst, gen)
	return append(dst, external...)
}

func TableKey(name string) []byte { return []byte(PrefixTable + name) }

func CheckpointPrefix(table string) []byte { return []byte(PrefixCheckpoint + table + "\x00") }

func CheckpointKey(table string, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(PrefixCheckpoint+table+"\x00"), n)
}

func BlobKey(table string, n uint64, i uint32) []byte {
	b := binary.BigEndian.AppendUint64([]byte(PrefixBlob+table+"\x00"), n)
	return binary.BigEndian.AppendUint32(b, i)
}

func VisitsKey(version uint64, kind [KindBytes]byte, partition uint32) []byte {
	b := append(NumberKey(PrefixVisits, version), kind[:]...)
	return binary.BigEndian.AppendUint32(b, partition)
}

// prefixEnd returns the smallest key after all keys that begin with prefix,
// whose last byte is below 0xff.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil // all 0xff: no upper bound
}

// KeyNumber is the number at the end of a key.
func KeyNumber(key []byte, prefixLen int) (uint64, error) {
	if len(key) != prefixLen+8 {
		return 0, fmt.Errorf("key %q has %d bytes, expected %d", key, len(key), prefixLen+8)
	}
	return binary.BigEndian.Uint64(key[prefixLen:]), nil
}
