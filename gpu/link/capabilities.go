package link

import (
	"slices"

	"github.com/gstore/gstore/gpu/nn"
)

// What options ask of encoders, in one place.

// noEncoder is the name of the encoder that is none.
const noEncoder = "none"

func attends(k *nn.Kind) bool { return k.Heads }

// encodersThat are the names of the encoders that can do something; nil: of all.
func encodersThat(can func(*nn.Kind) bool) []string {
	return slices.DeleteFunc(nn.Encoders(), func(name string) bool {
		k := nn.KindNamed(name)
		return name == noEncoder || can != nil && !can(&k)
	})
}
