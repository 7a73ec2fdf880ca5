// Package config says what a training run of nodes is: [Config] with its defaults and what is wrong with it, and what it
// means on a store: which columns the model reads, of what shape it is, how its mini-batches are sampled, which
// macro-batches it asks for. Nothing here opens a file or a device.
package config
