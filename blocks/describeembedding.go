package blocks

import (
	"bufio"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// DescribeEmbedding is Describe for an Embedding file, which has no footer: header and
// directory are checked, and the planes of every slot shown as they are. Which slot of a partition
// is valid is said by the store's checkpoints, not by the file.
func DescribeEmbedding(fs vfs.FS, path string, w io.Writer, o DescribeOptions) error {
	return withEmbedding(fs, path, func(f vfs.File, l *EmbeddingLayout) error {
		out := bufio.NewWriter(w)
		d := newDescriber(out, &l.Header, func(b []byte, offset int64) error {
			return readFull(f, path, b, offset, "file")
		}, o)
		d.embedding(l)
		if d.err != nil {
			return d.err
		}
		return out.Flush()
	})
}

func (d *describer) embedding(l *EmbeddingLayout) {
	d.title("%s, %d bytes, %d planes of %d partitions in %d slots, %d rows", d.name(), l.Size(), l.Planes, len(l.Nodes), l.Slots, l.Rows())
	d.header()
	d.title("directory")
	d.u32("planes")
	d.u32(fmt.Sprintf("slots beyond %d:", EmbeddingSlotsMin))
	d.array(int64(len(l.Nodes)), 8, "partitions", func(p int64, _ []byte) string {
		return fmt.Sprintf("partition %d: %d nodes", p, l.Nodes[p])
	})
	d.crc("directory checksum")
	d.zeros(HeaderBytes+l.directoryBytes()-d.at, "padding to alignment")
	shown := 0
	for slot := range l.Slots {
		for p := range l.Nodes {
			for plane := range l.Planes {
				if shown++; shown > d.most {
					d.skip(l.Size()-d.at, "%d more extents", l.Slots*len(l.Nodes)*l.Planes-d.most)
					return
				}
				id := PartitionID(p)
				d.title("extent %s: %d bytes, %d rows", l.ExtentName(id, plane, slot), l.PayloadBytes(id), l.Nodes[p])
				d.rows(l.Nodes[p])
				d.zeros(l.PlaneBytes(id)-l.PayloadBytes(id), "padding to alignment")
			}
		}
	}
}
