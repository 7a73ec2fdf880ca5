package blocks_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/gstore/gstore/blocks"
)

// Two partitions: nodes 0 and 1, and nodes 2, 3 and 4. The edges 1 → 2, 1 → 4 and 3 → 2 all lead into the second one.
// Its buckets tell them by local ids, which mean something only with the partitions' first nodes.
func ExampleBucket_All() {
	first := []blocks.NodeID{0, 2}
	var extent bytes.Buffer
	enc := blocks.NewStripeEncoder(&extent, []uint32{2, 3})
	if err := enc.Begin(1); err != nil {
		log.Fatal(err)
	}
	// EdgeKey(dst, src): nodes 2 and 4 are the partition's numbers 0 and 2.
	if err := enc.Bucket(0, []uint64{blocks.EdgeKey(0, 1), blocks.EdgeKey(2, 1)}); err != nil {
		log.Fatal(err)
	}
	if err := enc.Bucket(1, []uint64{blocks.EdgeKey(0, 1)}); err != nil {
		log.Fatal(err)
	}
	if _, err := enc.End(); err != nil {
		log.Fatal(err)
	}

	stripe, err := blocks.OpenStripe(extent.Bytes(), 2)
	if err != nil {
		log.Fatal(err)
	}
	for i := range stripe.Partitions() {
		bucket, err := stripe.Bucket(i)
		if err != nil {
			log.Fatal(err)
		}
		for dst, src := range bucket.All() {
			fmt.Printf("bucket (%d,1): local %d → %d is node %d → %d\n", i, src, dst, first[i]+blocks.NodeID(src), first[1]+blocks.NodeID(dst))
		}
	}

	// Output:
	// bucket (0,1): local 1 → 0 is node 1 → 2
	// bucket (0,1): local 1 → 2 is node 1 → 4
	// bucket (1,1): local 1 → 0 is node 3 → 2
}
