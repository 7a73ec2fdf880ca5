// Package damage holds a test of what `gstore verify` finds: a store of each kind is damaged in
// every way a disk, a copy or a careless hand does it, again and again.
package damage
